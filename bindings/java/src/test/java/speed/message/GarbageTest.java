package speed.message;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import speed.errors.MessageException;
import speed.errors.WireException;
import speed.internal.wire.Contract;
import speed.internal.wire.MessageView;

/** M-4, M-16 to M-23: altered messages end with a named error, or are what they were. */
class GarbageTest {
    private static final int ROUNDS = 15;

    private final long seed = Long.getLong("speed.seed", System.nanoTime());
    private final Random random = new Random(seed);

    @Test
    void alteredMessagesEndWithANamedError() {
        System.out.println("seed " + seed);
        for (String file : List.of("signatures", "encryption")) {
            Contract vectors = Contract.vectors(file);
            Guard guard = guard(vectors, file.equals("signatures"));
            List<Contract> cases = new ArrayList<>(vectors.cases("valid"));
            cases.addAll(vectors.cases("invalid"));
            for (Contract one : cases) {
                for (int round = 0; round < ROUNDS; round++) {
                    read(guard, altered(one.bytes("hex")));
                }
            }
        }
    }

    private static Guard guard(Contract vectors, boolean signatures) {
        MessageKey[] keys = vectors.cases(signatures ? "trusted" : "keys").stream()
                .map(one -> MessageKey.of(one.values()))
                .toArray(MessageKey[]::new);
        return new Guard(
                signatures
                        ? MessageSecurity.NONE.withPolicy(SignaturePolicy.VERIFY, keys)
                        : MessageSecurity.NONE.withKeys(keys),
                "");
    }

    private static void read(Guard guard, byte[] message) {
        try {
            guard.open(MessageView.of(message), System.currentTimeMillis(), "").payload();
        } catch (MessageException | WireException named) {
            // as it should be
        } catch (RuntimeException | Error defect) {
            throw new AssertionError(HexFormat.of().formatHex(message), defect);
        }
    }

    /** One to three changes: other bytes, a piece less, or a piece twice. */
    private byte[] altered(byte[] sound) {
        byte[] data = sound.clone();
        for (int change = random.nextInt(3); change >= 0 && data.length > 0; change--) {
            int at = random.nextInt(data.length);
            switch (random.nextInt(3)) {
                case 0 -> data[at] ^= (byte) (1 + random.nextInt(255));
                case 1 -> data = Arrays.copyOf(data, at);
                default -> {
                    byte[] tail = Arrays.copyOfRange(data, at, data.length);
                    data = Arrays.copyOf(data, data.length + tail.length);
                    System.arraycopy(tail, 0, data, data.length - tail.length, tail.length);
                }
            }
        }
        return data;
    }
}
