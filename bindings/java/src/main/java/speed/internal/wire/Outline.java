package speed.internal.wire;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;
import speed.errors.WireException;
import speed.internal.wire.Fields.MessageEnvelope;
import speed.internal.wire.Fields.MessageMetadata;

/** What bytes that are no message look like, for a log: which parts are there and how large, and the id. */
public final class Outline {
    /** Who writes more is not to be paid for with time. */
    private static final int MAX_RECORDS = 64;

    private static final Map<Integer, String> PARTS = parts();

    private final byte[] data;
    private final Map<Integer, Long> sizes = new LinkedHashMap<>();
    private int others;
    private String messageId = "";

    private Outline(byte[] data) {
        this.data = data;
    }

    /** The size of each part in bytes, how many others there are, and the message's id; no other value of it. */
    public static String of(byte[] data) {
        return new Outline(data).text();
    }

    private String text() {
        String more = walk();
        String parts = PARTS.entrySet().stream().map(this::shown).collect(Collectors.joining(", "));
        String unknown = others == 0 ? "" : ", " + others + " unknown";
        String named = messageId.isEmpty() ? "no message_id" : "message_id '" + messageId + "'";
        return data.length + " bytes: " + parts + unknown + more + "; " + named;
    }

    private String shown(Map.Entry<Integer, String> part) {
        Long size = sizes.get(part.getKey());
        return size == null ? "no " + part.getValue() : part.getValue() + " " + size;
    }

    /** Looks at the records; what is to be said of those that were not. */
    private String walk() {
        RecordWalk records = new RecordWalk(data, 0, data.length);
        int end = 0;
        try {
            for (int number = 0; records.advance(); number++) {
                if (number == MAX_RECORDS) {
                    return ", more from byte " + end;
                }
                end = records.next();
                count(records);
            }
            return "";
        } catch (WireException broken) {
            return ", nothing to be read from byte " + end;
        }
    }

    private void count(RecordWalk record) {
        if (record.type != RecordWalk.LENGTH_DELIMITED || !PARTS.containsKey(record.field)) {
            others++;
            return;
        }
        sizes.merge(record.field, (long) record.next() - record.value, Long::sum);
        if (record.is(MessageEnvelope.METADATA)) {
            String found = messageIdIn(record.inside());
            messageId = found.isEmpty() ? messageId : found;
        }
    }

    /** What can be read of it, as a log may have it. */
    private static String messageIdIn(RecordWalk metadata) {
        byte[] found = {};
        try {
            for (int number = 0; number < MAX_RECORDS && metadata.advance(); number++) {
                found = metadata.is(MessageMetadata.MESSAGE_ID) ? metadata.copy() : found;
            }
        } catch (WireException broken) {
            // as far as it could be read
        }
        int size = Math.min(found.length, Limits.MAX_MESSAGE_ID_BYTES);
        return Printable.text(new String(found, 0, size, StandardCharsets.UTF_8));
    }

    private static Map<Integer, String> parts() {
        Map<Integer, String> parts = new LinkedHashMap<>();
        parts.put(MessageEnvelope.METADATA, "metadata");
        parts.put(MessageEnvelope.SECURITY, "security");
        parts.put(MessageEnvelope.OBSERVABILITY, "observability");
        parts.put(MessageEnvelope.SCHEMA, "schema");
        parts.put(MessageEnvelope.EXTENSIONS, "extensions");
        parts.put(MessageEnvelope.PAYLOAD, "payload");
        return parts;
    }
}
