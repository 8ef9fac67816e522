/**
 * Durable topics, whose messages a host keeps for subscriptions. A {@link speed.topics.Topic} is made by
 * {@code node.topic(name)}.
 */
package speed.topics;
