package speed.examples;

import java.time.Duration;
import java.util.Map;
import speed.Node;
import speed.topics.Consumer;
import speed.topics.ConsumerOptions;
import speed.topics.PublishOptions;
import speed.topics.Start;
import speed.topics.SubscriptionType;
import speed.topics.TopicMessage;

/** Publishes to the durable topic {@code orders} and consumes it; with a speedd that hosts it. */
public final class Topics {
    private Topics() {}

    /**
     * Publishes one order, and handles all.
     *
     * @param arguments none
     */
    public static void main(String[] arguments) throws InterruptedException {
        publish();
        consume();
    }

    private static void publish() {
        try (Node shop = Node.builder("shop.java").open()) {
            shop.topic("orders")
                    .publish(
                            Map.of("id", 1, "amount", 20.5),
                            PublishOptions.DEFAULT.withKey("customer 7").withProperties(Map.of("source", "web")));
        }
    }

    private static void consume() throws InterruptedException {
        ConsumerOptions shared =
                ConsumerOptions.DEFAULT.withType(SubscriptionType.SHARED).withStart(Start.EARLIEST);
        try (Node billing = Node.builder("billing.java").open();
                Consumer consumer = billing.topic("orders").consumer("billing", shared)) {
            Duration wait = Duration.ofMillis(500);
            for (TopicMessage next = consumer.receive(wait); next != null; next = consumer.receive(wait)) {
                System.out.println(next.payload(Map.class).get("id") + " " + next.key());
                consumer.acknowledge(next);
            }
        }
    }
}
