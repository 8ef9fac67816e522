package speed.message;

import java.util.List;
import speed.errors.KeyRefusedException;
import speed.internal.message.Compression.Shown;
import speed.internal.wire.Names;

/**
 * What a key may be used for. Immutable.
 *
 * @param namespaces exact, or {@code *} for all
 * @param topics patterns such as {@code orders.*}; {@code *} for all
 * @param publishers whom a trusted key may sign for: names, or patterns such as {@code etl.*}
 * @param notBeforeMs Unix ms of its first message
 * @param notAfterMs Unix ms of its last message
 */
public record KeyBounds(
        List<String> namespaces, List<String> topics, List<String> publishers, long notBeforeMs, long notAfterMs) {
    /** Everywhere, at any time; it signs for nobody. */
    public static final KeyBounds NONE = new KeyBounds(List.of("*"), List.of("*"), List.of(), 0, Long.MAX_VALUE);

    /**
     * Copies the lists.
     *
     * @param namespaces exact, or {@code *} for all
     * @param topics patterns; {@code *} for all
     * @param publishers whom a trusted key may sign for
     * @param notBeforeMs Unix ms of its first message
     * @param notAfterMs Unix ms of its last message
     */
    public KeyBounds {
        namespaces = List.copyOf(namespaces);
        topics = List.copyOf(topics);
        publishers = List.copyOf(publishers);
    }

    /**
     * For other namespaces.
     *
     * @param names exact, or {@code *}
     * @return such bounds
     */
    public KeyBounds withNamespaces(String... names) {
        return new KeyBounds(List.of(names), topics, publishers, notBeforeMs, notAfterMs);
    }

    /**
     * For other topics.
     *
     * @param patterns such as {@code orders.*}
     * @return such bounds
     */
    public KeyBounds withTopics(String... patterns) {
        return new KeyBounds(namespaces, List.of(patterns), publishers, notBeforeMs, notAfterMs);
    }

    /**
     * For other publishers.
     *
     * @param patterns names, or patterns such as {@code etl.*}
     * @return such bounds
     */
    public KeyBounds withPublishers(String... patterns) {
        return new KeyBounds(namespaces, topics, List.of(patterns), notBeforeMs, notAfterMs);
    }

    /**
     * For another time.
     *
     * @param fromMs Unix ms of its first message
     * @param toMs Unix ms of its last message
     * @return such bounds
     */
    public KeyBounds withTime(long fromMs, long toMs) {
        return new KeyBounds(namespaces, topics, publishers, fromMs, toMs);
    }

    boolean coversPublisher(String publisher) {
        return !publisher.isEmpty() && publishers.stream().anyMatch(pattern -> Names.matches(pattern, publisher));
    }

    /** KeyRefusedException for a use outside. */
    void check(String keyId, String namespace, String topic, long atMs) {
        require(
                namespaces.contains("*") || namespaces.contains(namespace),
                keyId,
                "is not for namespace '" + Shown.text(namespace) + "'");
        require(
                topics.stream().anyMatch(pattern -> Names.matches(pattern, topic)),
                keyId,
                "is not for topic '" + Shown.text(topic) + "'");
        require(
                atMs >= notBeforeMs && atMs <= notAfterMs,
                keyId,
                "is not valid at that time: rotate it, or wait until it begins");
    }

    private static void require(boolean holds, String keyId, String otherwise) {
        if (!holds) {
            throw new KeyRefusedException("key '" + keyId + "' " + otherwise);
        }
    }
}
