package speed.message;

import java.util.List;
import java.util.Objects;
import speed.errors.SchemaException;

/**
 * One schema of payloads. The program brings what validates; this node sees to it that it is asked.
 *
 * @param hash {@code sha256:} and 64 hex digits of the schema file's bytes
 * @param marksPersonalData whether it marks a field as personal: each message with it is one with personal data then
 * @param check holds a payload to it
 */
public record PayloadSchema(String hash, boolean marksPersonalData, Check check) {
    /**
     * Checks that nothing is missing.
     *
     * @param hash {@code sha256:} and 64 hex digits of the schema file's bytes
     * @param marksPersonalData whether it marks a field as personal
     * @param check holds a payload to it
     */
    public PayloadSchema {
        Objects.requireNonNull(hash, "hash");
        Objects.requireNonNull(check, "check");
    }

    /** Holds payloads to a schema; from several threads at once. */
    @FunctionalInterface
    public interface Check {
        /**
         * Looks at one payload, as it was before encryption and compression.
         *
         * @param contentType its media type, such as {@code application/msgpack}
         * @param payload its bytes
         * @return names of the deprecated fields that it uses
         * @throws SchemaException when it does not fit; say where, and not what stands there. Whatever else is thrown
         *     counts as one that does not fit
         */
        List<String> check(String contentType, byte[] payload);
    }

    /**
     * A schema by its file.
     *
     * @param file its bytes, of which the hash is taken
     * @param marksPersonalData whether it marks a field as personal
     * @param check holds a payload to it
     * @return the schema
     */
    public static PayloadSchema of(byte[] file, boolean marksPersonalData, Check check) {
        return new PayloadSchema(SchemaReference.hashOf(file), marksPersonalData, check);
    }

    /** The deprecated fields of a payload that fits; SchemaException for another, whatever its check throws. */
    List<String> deprecatedIn(String contentType, byte[] payload) {
        try {
            return List.copyOf(check.check(contentType, payload));
        } catch (SchemaException misfit) {
            throw misfit;
        } catch (RuntimeException | StackOverflowError failed) { // a payload may be nested as deep as its sender likes
            throw new SchemaException(
                    "the payload could not be checked: " + failed.getClass().getSimpleName());
        }
    }
}
