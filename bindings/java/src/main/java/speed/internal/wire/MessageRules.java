package speed.internal.wire;

import java.nio.charset.StandardCharsets;
import speed.errors.WireException;

/** What the metadata of a message must look like; the same check on both sides. */
final class MessageRules {
    private static final int MAX_PRIORITY = 10;
    private static final int MAX_ID_BYTES = 128;
    private static final int MAX_NAMESPACE_BYTES = 128;

    private MessageRules() {}

    static void checkRequired(String messageId, String topic, String namespace, long publishedAtMs) {
        checkText("message_id", messageId, MAX_ID_BYTES);
        checkText("topic", topic, Limits.MAX_TOPIC_BYTES);
        require(Names.isTopic(topic), "topic", "is not dot-separated parts of [A-Za-z0-9_-]");
        checkText("namespace", namespace, MAX_NAMESPACE_BYTES);
        require(publishedAtMs > 0, "published_at_ms", "is required and greater than zero");
    }

    static void checkOptional(long priority, long ttlSeconds) {
        require(priority >= 0 && priority <= MAX_PRIORITY, "priority", "is outside 0..10");
        require(ttlSeconds >= 0, "ttl_seconds", "is negative");
    }

    static void checkCustom(String field, long number, String custom) {
        boolean named = custom != null && !custom.isEmpty();
        require(number != Content.CUSTOM || named, field, "is required when its enum says CUSTOM");
    }

    static void require(boolean holds, String field, String what) {
        if (!holds) {
            throw new WireException("BAD_MESSAGE", field + ": " + what);
        }
    }

    private static void checkText(String field, String text, int most) {
        require(text != null && !text.isEmpty(), field, "is required and not empty");
        boolean fits = text.length() <= most && text.getBytes(StandardCharsets.UTF_8).length <= most;
        require(fits, field, "is longer than " + most + " bytes");
    }
}
