/** SPEED: secure filesystem IPC between unrelated processes. {@link speed.Node} is the way in. */
package speed;
