package speed.message;

import java.util.HexFormat;
import java.util.List;
import speed.internal.wire.Hashes;
import speed.internal.wire.Schema;

/**
 * Names the schema of a payload, for receivers that have it. Absent texts are empty. A node with schemas sends name and version
 * only of one that is among them.
 *
 * @param name of the schema
 * @param version of the schema
 * @param format {@code protobuf}, {@code json-schema} or {@code avro}
 * @param url where it can be read
 * @param hash {@code sha256:} and 64 hex digits of the file's bytes
 * @param compatibility {@code backward}, {@code forward}, {@code full} or {@code none}
 */
public record SchemaReference(
        String name, String version, String format, String url, String hash, String compatibility) {
    /** Says nothing. */
    public static final SchemaReference NONE = new SchemaReference("", "", "", "", "", "");

    /**
     * A schema by its file.
     *
     * @param name of the schema
     * @param version of the schema
     * @param format {@code protobuf}, {@code json-schema} or {@code avro}
     * @param file its bytes, of which the hash is taken
     * @return such a reference
     */
    public static SchemaReference of(String name, String version, String format, byte[] file) {
        return new SchemaReference(name, version, format, "", hashOf(file), "");
    }

    static String hashOf(byte[] file) {
        return "sha256:" + HexFormat.of().formatHex(Hashes.sha256(file));
    }

    Schema described() {
        return described(hash, List.of());
    }

    Schema described(String knownHash, List<String> deprecated) {
        return new Schema(url, version, format, knownHash, name, compatibility, deprecated);
    }
}
