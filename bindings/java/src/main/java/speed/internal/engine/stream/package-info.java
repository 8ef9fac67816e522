/** Streams of a node (streams.md): what arrives on them, what goes out, and which envelope is for which. */
package speed.internal.engine.stream;
