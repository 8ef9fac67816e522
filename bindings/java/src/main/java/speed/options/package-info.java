/** How a node, its services and what it sends behave. Every option has a default. */
package speed.options;
