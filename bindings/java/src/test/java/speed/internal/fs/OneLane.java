package speed.internal.fs;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;
import speed.internal.wire.Block;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Keyring;
import speed.internal.wire.LaneMac;
import speed.internal.wire.LinkSealer;
import speed.internal.wire.NodeId;

/** The lane analytics to billing under a root of the test, with real files. */
abstract class OneLane {
    static final NodeId SOURCE = NodeId.of("analytics");
    static final NodeId TARGET = NodeId.of("billing");
    static final LaneWriter.WriteOptions MANNER = new LaneWriter.WriteOptions(1 << 26, false, false);
    static final int ALL = 1000;

    @TempDir
    Path root;

    final Keyring ring = new Keyring(List.of(new byte[32]));
    final LaneMac mac = new LaneMac(ring, SOURCE, TARGET);

    @BeforeEach
    void prepare() throws PosixException {
        inbox(1);
    }

    Inbox inbox(int generation) throws PosixException {
        Inbox inbox = new Inbox(root.toString(), "billing", generation, ring, false);
        inbox.prepare();
        return inbox;
    }

    /** A sender in one generation. */
    final class Sender {
        final LaneWriter writer;
        private final LinkSealer sealer;
        long counter;

        Sender(int generation) {
            this(generation, MANNER);
        }

        Sender(int generation, LaneWriter.WriteOptions manner) {
            writer = new LaneWriter(root.toString(), "analytics", "billing", generation, mac, manner);
            sealer = new LinkSealer(ring, SOURCE, TARGET, generation, bytes -> {});
        }

        void send(String text) {
            send(EnvelopeType.MESSAGE, text.getBytes(StandardCharsets.UTF_8));
        }

        void send(EnvelopeType type, byte[] payload) {
            send(type, 0, payload);
        }

        void send(EnvelopeType type, int flags, byte[] payload) {
            Block block = new Block(payload.length + 104);
            writer.append(block, List.of(seal(block, type, flags, payload)));
        }

        /** Seals the next envelope; returns its bytes. */
        int seal(Block into, EnvelopeType type, int flags, byte[] payload) {
            return sealer.seal(into, 0, type, flags, ++counter, 1, payload);
        }
    }

    Path lane() {
        return root.resolve("billing/inbox/analytics");
    }

    Path file(String name) {
        return lane().resolve(name + ".lane");
    }

    void append(String file, byte[] bytes) throws IOException {
        Files.write(file(file), bytes, StandardOpenOption.APPEND);
    }

    static List<Received> read(LaneReader reader) throws PosixException {
        return reader.read(ALL, 1 << 24, System.nanoTime(), true).received();
    }

    static List<String> texts(List<Received> received) {
        return received.stream()
                .map(one -> new String(one.payload(), StandardCharsets.UTF_8))
                .toList();
    }

    static Map<String, Object> counts(LaneReader reader) {
        Map<String, Object> counts = new HashMap<>();
        reader.counts().addTo(counts);
        return counts;
    }

    long quarantined() throws IOException {
        try (Stream<Path> files = Files.list(root.resolve("billing/quarantine"))) {
            return files.filter(file -> file.toString().endsWith(".reason")).count();
        }
    }
}
