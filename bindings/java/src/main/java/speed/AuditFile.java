package speed;

import java.nio.file.Path;
import speed.errors.ConfigurationException;
import speed.internal.spi.Engine;
import speed.internal.wire.Require;
import speed.message.AuditLog;

/**
 * Opens audit logs in files: one JSON line for each encryption, decryption, signature and refusal, and for each message with
 * personal data or of class {@code restricted} that a program is handed. Never a key or payload.
 *
 * <pre>{@code
 * try (AuditLog log = AuditFile.open(Path.of("/var/log/shop/audit.jsonl"));
 *         Node shop = Node.builder("shop").security(MessageSecurity.NONE.withAudit(log)).open()) {
 *     shop.onMessage(message -> ...);
 * }
 * }</pre>
 *
 * <p>The file is made private to this user; a link is refused. Each process needs a file of its own. A line is one write,
 * before what it tells of has an effect.
 */
public final class AuditFile {
    /** Beyond which a file gets another name. */
    public static final long MAX_BYTES = 16 << 20;
    /** How many files with other names there are: {@code path.1}, the newest, to {@code path.4}. */
    public static final int KEPT = 4;

    private AuditFile() {}

    /**
     * Opens a log of usual size.
     *
     * @param path the file, made if it is missing
     * @return the log, to be closed after the nodes that use it
     * @throws speed.errors.StorageException when it cannot be opened
     */
    public static AuditLog open(Path path) {
        return open(path, MAX_BYTES, KEPT);
    }

    /**
     * Opens a log.
     *
     * @param path the file, made if it is missing
     * @param maxBytes beyond which it becomes {@code path.1}
     * @param kept how many such files there are
     * @return the log, to be closed after the nodes that use it
     * @throws speed.errors.StorageException when it cannot be opened
     */
    public static AuditLog open(Path path, long maxBytes, int kept) {
        if (maxBytes < 1 || kept < 1) {
            throw new ConfigurationException("an audit log keeps at least one byte, and one file beside its own");
        }
        return Engine.installed().openAudit(Require.value("path", path), maxBytes, kept);
    }
}
