package speed.message;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import speed.errors.KeyExhaustedException;

/** How often each key was used to write in this process. Thread-safe. */
final class KeyUses {
    private final Map<String, AtomicLong> uses = new ConcurrentHashMap<>();
    private final long most;

    KeyUses(long most) {
        this.most = most;
    }

    void count(MessageKey key) {
        if (uses.computeIfAbsent(key.id(), any -> new AtomicLong()).incrementAndGet() > most) {
            throw new KeyExhaustedException("key '" + key.id() + "' was used " + most + " times: rotate it");
        }
    }
}
