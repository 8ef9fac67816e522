package speed.tool;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import speed.internal.wire.Json;
import speed.internal.wire.MessageView;
import speed.message.Guard;
import speed.message.MessageKey;
import speed.message.MessageSecurity;
import speed.message.OpenedMessage;
import speed.message.SignaturePolicy;

/** Opens protected messages as a node that has the keys of the vectors: those which every build has. */
public final class VectorGuard {
    private static final Set<String> OPENS =
            Set.of("aes-256-gcm", "chacha20-poly1305", "x25519-chacha20-poly1305");
    private static final long CLOCK_MS = 1_800_000_000_000L;
    private static final Path CONTRACT = Path.of(System.getProperty("speed.contract", "registry_spec"));
    private static final Guard GUARD = new Guard(settings());

    private VectorGuard() {}

    /**
     * Checks and opens one message.
     *
     * @param message its bytes
     * @return what a handler would get
     * @throws speed.errors.SpeedException for what is refused
     */
    public static OpenedMessage open(byte[] message) {
        return GUARD.open(MessageView.of(message), CLOCK_MS);
    }

    private static MessageSecurity settings() {
        MessageKey[] trusted = keys("signatures", "trusted", false);
        return MessageSecurity.NONE.withKeys(keys("encryption", "keys", true))
                .withPolicy(SignaturePolicy.VERIFY, trusted).withClearance("confidential");
    }

    private static MessageKey[] keys(String file, String list, boolean some) {
        List<MessageKey> keys = new ArrayList<>();
        for (Object record : (List<?>) vectors(file).get(list)) {
            Map<?, ?> fields = (Map<?, ?>) record;
            if (!some || OPENS.contains(fields.get("algorithm"))) {
                keys.add(MessageKey.of(fields));
            }
        }
        return keys.toArray(new MessageKey[0]);
    }

    private static Map<?, ?> vectors(String file) {
        try {
            return (Map<?, ?>) Json.parse(Files.readString(CONTRACT.resolve("vectors/" + file + ".json")));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
