package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import speed.internal.wire.Header.EnvelopeType;

/** L-16: what never becomes whole is not read again and again. */
class IncompleteEnvelopeTest extends OneLane {
    private static final int LARGE = 8 << 20;

    private static List<Received> read(LaneReader reader, boolean scan) throws PosixException {
        return reader.read(ALL, 1 << 30, System.nanoTime(), scan).received();
    }

    @Test
    void anIncompleteEnvelopeIsReadAgainOnlyWhenItGrew() throws IOException {
        Sender sender = new Sender(1);
        sender.send("first");
        sender.send(EnvelopeType.MESSAGE, new byte[LARGE]);
        byte[] whole = Files.readAllBytes(file("000001-00000001"));
        int cut = whole.length - 1000;
        Files.write(file("000001-00000001"), Arrays.copyOf(whole, cut));
        LaneReader reader = inbox(1).lane("analytics");
        AtomicInteger reads = new AtomicInteger();
        FailingCall.during(
                "pread",
                0,
                () -> {
                    reads.incrementAndGet();
                    return false;
                },
                () -> {
                    assertEquals(1, read(reader, true).size());
                    read(reader, true);
                    int before = reads.get();
                    assertTrue(before > 0);
                    for (int turn = 0; turn < 20; turn++) {
                        assertEquals(List.of(), read(reader, turn % 2 == 0));
                    }
                    assertEquals(before, reads.get());
                });
        Files.write(file("000001-00000001"), Arrays.copyOfRange(whole, cut, whole.length), StandardOpenOption.APPEND);
        assertEquals(LARGE, read(reader, false).get(0).payload().length);
        reader.close();
    }
}
