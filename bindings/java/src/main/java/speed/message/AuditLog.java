package speed.message;

import java.util.Map;

/**
 * Where a node tells each encryption, decryption, signature and refusal, and each message with personal data or of class
 * {@code restricted} that its program is handed; never a key or payload. {@code speed.AuditFile} is one in a file.
 * Thread-safe.
 */
public interface AuditLog extends AutoCloseable {
    /**
     * Keeps one line, before what it tells of has an effect.
     *
     * @param line what is told, in the order in which it is written; its time comes before it
     * @throws speed.errors.StorageException when it cannot be kept: then what it tells of does not happen
     */
    void write(Map<String, Object> line);

    /** No line comes any more. */
    @Override
    void close();
}
