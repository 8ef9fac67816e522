package speed.internal.wire;

import java.util.List;
import speed.internal.wire.Fields.SchemaContext;
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
                fields.textOrEmpty(SchemaContext.SCHEMA_URL),
                fields.textOrEmpty(SchemaContext.SCHEMA_VERSION),
                fields.textOrEmpty(SchemaContext.SCHEMA_FORMAT),
                fields.textOrEmpty(SchemaContext.SCHEMA_HASH),
                fields.textOrEmpty(SchemaContext.SCHEMA_NAME),
                fields.textOrEmpty(SchemaContext.COMPATIBILITY_MODE),
                fields.texts(SchemaContext.DEPRECATED_FIELDS_USED));
    }

    byte[] encode() {
        RecordWriter out = new RecordWriter()
                .text(SchemaContext.SCHEMA_URL, url)
                .text(SchemaContext.SCHEMA_VERSION, version)
                .text(SchemaContext.SCHEMA_FORMAT, format)
                .text(SchemaContext.SCHEMA_HASH, hash)
                .text(SchemaContext.SCHEMA_NAME, name)
                .text(SchemaContext.COMPATIBILITY_MODE, compatibility);
        deprecatedFields.forEach(field -> out.text(SchemaContext.DEPRECATED_FIELDS_USED, field));
        return out.toByteArray();
    }
}
