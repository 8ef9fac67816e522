package speed.internal.wire;

import java.util.List;
import speed.internal.wire.Records.RecordWriter;

/**
 * What a message says of the schema of its payload: {@code SchemaContext} of the contract. Absent texts are empty.
 */
public record Schema(
        String url,
        String version,
        String format,
        String hash,
        String name,
        String compatibility,
        List<String> deprecatedFields) {
    public static final Schema NONE = new Schema("", "", "", "", "", "", List.of());

    static Schema of(Records fields) {
        return new Schema(
                fields.textOrEmpty(1),
                fields.textOrEmpty(2),
                fields.textOrEmpty(3),
                fields.textOrEmpty(4),
                fields.textOrEmpty(5),
                fields.textOrEmpty(6),
                fields.texts(7));
    }

    byte[] encode() {
        RecordWriter out = new RecordWriter()
                .text(1, url)
                .text(2, version)
                .text(3, format)
                .text(4, hash)
                .text(5, name)
                .text(6, compatibility);
        deprecatedFields.forEach(field -> out.text(7, field));
        return out.toByteArray();
    }
}
