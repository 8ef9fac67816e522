package speed.message;

import java.io.UncheckedIOException;
import java.util.regex.Pattern;
import speed.errors.SchemaException;
import speed.internal.message.Compression.Shown;
import speed.internal.wire.Schema;

/**
 * The schemas of a node's program, asked so that neither they nor what messages name harm the node.
 *
 * @param schemas null where there are none
 */
record KnownSchemas(Schemas schemas) {
    /** A name may become part of a path. */
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_][A-Za-z0-9._-]{0,127}");

    /** The schema that a received message names, if it is here; SchemaException if the message has another hash. */
    PayloadSchema of(Schema said) {
        PayloadSchema known = find(said.name(), said.version());
        if (known != null && !said.hash().equals(known.hash())) {
            throw new SchemaException("schema_hash: is not that of '" + Shown.text(said.name()) + "' of version '"
                    + Shown.text(said.version()) + "' here");
        }
        return known;
    }

    /**
     * The schema that is to be written; null without schemas here, or without name and version. SchemaException for one
     * that is not here, or of which nobody can tell now.
     */
    PayloadSchema of(SchemaReference reference) {
        try {
            PayloadSchema known = find(reference.name(), reference.version());
            if (known == null && schemas != null && !reference.name().isEmpty() && !reference.version().isEmpty()) {
                throw new SchemaException("there is no schema '" + reference.name() + "' of version '"
                        + reference.version() + "' here");
            }
            return known;
        } catch (UncheckedIOException away) {
            throw new SchemaException("the schemas cannot be reached: " + away.getMessage());
        }
    }

    /** Null where there is none; what is unreachable now passes through. */
    private PayloadSchema find(String name, String version) {
        if (schemas == null || name.isEmpty() || version.isEmpty()) {
            return null;
        }
        if (!isName(name) || !isName(version)) {
            throw new SchemaException("'" + Shown.text(name) + "' of version '" + Shown.text(version)
                    + "' cannot be a schema: use [A-Za-z0-9._-]");
        }
        try {
            return schemas.find(name, version).orElse(null);
        } catch (SchemaException | UncheckedIOException known) {
            throw known;
        } catch (RuntimeException | StackOverflowError failed) {
            throw new SchemaException("schema '" + name + "' of version '" + version + "' could not be looked up: "
                    + failed.getClass().getSimpleName());
        }
    }

    private static boolean isName(String text) {
        return NAME.matcher(text).matches() && !text.contains("..");
    }
}
