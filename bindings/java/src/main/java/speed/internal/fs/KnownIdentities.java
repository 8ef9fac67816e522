package speed.internal.fs;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import speed.errors.KeyFileException;
import speed.errors.WireException;
import speed.internal.GuardedBy;
import speed.internal.wire.Evidence.KnownIdentity;
import speed.internal.wire.Names;
import speed.internal.wire.NodeId;
import speed.internal.wire.NodeIdentity;
import speed.internal.wire.Statement;

/**
 * What a node with an identity knows of others: what owners state in the root, and what it remembers itself, in a file
 * beside its identity. Lines of {@code name fingerprint issued}, and {@code revoked} behind those that are. Thread-safe.
 */
public final class KnownIdentities {
    /** Names that are remembered; a name beyond is not accepted at first use. */
    private static final int MOST = 4096;

    private static final int MOST_BYTES = 1 << 20;
    private static final int STATEMENT_BYTES = 256;
    private static final String FIRST_LINE = "SPEED-KNOWN-V1";

    private final String path;

    @GuardedBy("this")
    private Map<String, KnownIdentity> known;

    /** Of the node of an identity file; KeyFileException for a file that was damaged, or that others can reach. */
    public KnownIdentities(String identityPath) {
        path = Names.knownPath(Path.of(identityPath).toAbsolutePath().toString());
        known = Files.exists(Path.of(path), LinkOption.NOFOLLOW_LINKS) ? read() : Map.of();
    }

    private Map<String, KnownIdentity> read() {
        String[] lines = new String(KeyFiles.secret(path, MOST_BYTES, false), StandardCharsets.US_ASCII).split("\n");
        Map<String, KnownIdentity> rows = new LinkedHashMap<>();
        boolean isSound = lines[0].equals(FIRST_LINE);
        for (int index = 1; index < lines.length && isSound; index++) {
            isSound = lines[index].isEmpty() || take(lines[index], rows);
        }
        if (!isSound) {
            throw new KeyFileException(path + " was damaged: restore it, or remove it to meet all nodes anew");
        }
        return rows;
    }

    private static boolean take(String line, Map<String, KnownIdentity> rows) {
        String[] words = line.split(" ", -1);
        boolean isRevoked = words.length == 4 && words[3].equals("revoked");
        boolean isRow = (words.length == 3 || isRevoked) && Names.isNode(words[0]);
        if (!isRow || !NodeIdentity.isFingerprint(words[1])) {
            return false;
        }
        try {
            rows.put(words[0], new KnownIdentity(words[1], Long.parseLong(words[2]), isRevoked));
            return true;
        } catch (NumberFormatException damaged) {
            return false;
        }
    }

    /** What is remembered of a name; null for nothing. */
    public synchronized KnownIdentity of(String name) {
        return known.get(name);
    }

    /** On disk when this returns; false if too many are known already. KeyFileException where it cannot be written. */
    public synchronized boolean remember(String name, KnownIdentity identity) {
        KnownIdentity before = known.get(name);
        if (before == null && known.size() >= MOST) {
            return false;
        }
        if (!identity.equals(before)) {
            Map<String, KnownIdentity> changed = new LinkedHashMap<>(known);
            changed.put(name, identity);
            SecretFile.replace(path, format(changed));
            known = changed;
        }
        return true;
    }

    private static byte[] format(Map<String, KnownIdentity> rows) {
        StringBuilder text = new StringBuilder(FIRST_LINE + "\n");
        rows.forEach((name, one) -> text.append(name)
                .append(' ')
                .append(one.fingerprint())
                .append(' ')
                .append(one.issued())
                .append(one.isRevoked() ? " revoked\n" : "\n"));
        return text.toString().getBytes(StandardCharsets.US_ASCII);
    }

    /** What one of these owners states of a name; null for nothing, and for what none of them signed. */
    public static Statement statement(String root, String name, Collection<String> owners) {
        String file = Names.statementPath(root, name);
        String directory = file.substring(0, file.lastIndexOf('/'));
        try (Directory statements = Directory.open(directory)) {
            byte[] data = statements.readAny(name, STATEMENT_BYTES);
            return Statement.read(data, NodeId.of(name), owners);
        } catch (PosixException | WireException none) {
            return null;
        }
    }
}
