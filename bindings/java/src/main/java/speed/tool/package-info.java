/** Programs around the node: the interop agent, the bench, the vector producer. Not part of the library. */
package speed.tool;
