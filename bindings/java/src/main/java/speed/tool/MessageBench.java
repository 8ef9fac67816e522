package speed.tool;

import java.util.Arrays;
import speed.errors.UntrustedException;
import speed.internal.message.MessageGuard;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.MessageView;
import speed.message.Algorithm;
import speed.message.KeyBounds;
import speed.message.MessageKey;
import speed.message.MessageSecurity;
import speed.message.Protection;
import speed.message.SchemaReference;
import speed.message.SignaturePolicy;

/** What it costs to protect a message and to open it again: the median of some rounds, one message at a time. */
public final class MessageBench {
    private static final int ROUNDS = 300;
    private static final int SMALL = 1 << 10;
    private static final int MIDDLE = 1 << 20;
    private static final int LARGE = 10 << 20;
    private static final MessageDraft DRAFT = new MessageDraft(
            "0b6e4f0c-0000-7000-8000-000000000001",
            "orders.created",
            "default",
            1_700_000_000_123L,
            "billing",
            MessageDraft.Options.NONE);

    private MessageBench() {}

    /**
     * Prints the figures.
     *
     * @param line nothing
     */
    public static void main(String[] line) {
        for (Algorithm algorithm : Algorithm.values()) {
            MessageKey key =
                    MessageKey.generate("key-1", algorithm).withBounds(KeyBounds.NONE.withPublishers("billing"));
            say(algorithm, key, SMALL, "1 KiB");
            if (algorithm.isShared()) {
                say(algorithm, key, MIDDLE, "1 MiB");
            }
        }
        sayRefused();
    }

    private static void say(Algorithm algorithm, MessageKey key, int bytes, String size) {
        boolean signs = algorithm.isSignature();
        MessageGuard<Protection, SchemaReference> writer = guard(MessageSecurity.NONE);
        MessageGuard<Protection, SchemaReference> reader = guard(
                signs
                        ? MessageSecurity.NONE.withPolicy(SignaturePolicy.REQUIRE, key)
                        : MessageSecurity.NONE.withKeys(key));
        Protection protection = signs ? Protection.NONE.signWith(key) : Protection.NONE.encryptTo(key);
        byte[] payload = new byte[bytes];
        double micros = median(() -> reader.open(
                MessageView.of(writer.write(DRAFT, payload, protection, SchemaReference.NONE)),
                DRAFT.publishedAtMs(),
                ""));
        System.out.printf(
                "%-26s %s written and opened: %9.1f µs  %6.3f GB/s%n",
                algorithm.label(), size, micros, bytes / micros / 1e3);
    }

    private static MessageGuard<Protection, SchemaReference> guard(MessageSecurity security) {
        return MessageGuard.of(security, "");
    }

    /** A large message of who is not trusted. */
    private static void sayRefused() {
        MessageKey key = MessageKey.generate("key-1", Algorithm.ED25519);
        byte[] message = guard(MessageSecurity.NONE)
                .write(DRAFT, new byte[LARGE], Protection.NONE.signWith(key), SchemaReference.NONE);
        MessageGuard<Protection, SchemaReference> reader =
                guard(MessageSecurity.NONE.withPolicy(SignaturePolicy.REQUIRE, key));
        double micros = median(() -> {
            try {
                reader.open(MessageView.of(message), DRAFT.publishedAtMs(), "");
            } catch (UntrustedException refused) {
                return;
            }
            throw new AssertionError("was trusted");
        });
        System.out.printf("%-26s 10 MiB of an unknown publisher refused: %.1f µs%n", "ed25519", micros);
    }

    private static double median(Runnable round) {
        long[] nanos = new long[2 * ROUNDS];
        for (int n = 0; n < nanos.length; n++) {
            long began = System.nanoTime();
            round.run();
            nanos[n] = System.nanoTime() - began;
        }
        long[] warm = Arrays.copyOfRange(nanos, ROUNDS, nanos.length);
        Arrays.sort(warm);
        return warm[ROUNDS / 2] / 1e3;
    }
}
