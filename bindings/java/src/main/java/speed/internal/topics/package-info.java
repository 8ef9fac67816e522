/** Durable topics as their clients have them: they ask the host, and keep nothing on disk. */
package speed.internal.topics;
