package speed.message;

import java.util.Optional;

/**
 * Where a node's program has its schemas of payloads: in memory, in a directory, in a registry. Asked for each message
 * that names one, from several threads at once: remember what you found.
 *
 * <pre>{@code
 * Map<String, PayloadSchema> known = Map.of("order/v1", PayloadSchema.of(file, true, validator::deprecatedFields));
 * MessageSecurity.NONE.withSchemas((name, version) -> Optional.ofNullable(known.get(name + "/" + version)));
 * }</pre>
 */
@FunctionalInterface
public interface Schemas {
    /**
     * The schema of a name and version. Neither is trusted: they stand in a message. They are 1 to 128 of
     * {@code [A-Za-z0-9._-]} without {@code ..}; a message with others is refused unasked.
     *
     * @param name of the schema
     * @param version of the schema
     * @return the schema; empty where it is not here, so that payloads are not held to it
     * @throws java.io.UncheckedIOException when the schemas cannot be reached now: a received message waits, those behind
     *     it too, and you are asked again; what is sent is refused with BAD_SCHEMA. Whatever else is thrown refuses the
     *     message with BAD_SCHEMA; the text of a {@link speed.errors.SchemaException} is told
     */
    Optional<PayloadSchema> find(String name, String version);
}
