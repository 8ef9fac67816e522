package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.security.SecureRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.WireException;

/** S-18: the files of dead letters. */
class DeadLettersTest {
    private final Contract vectors = Contract.vectors("dead_letters");
    private final Keyring keyring = new Keyring(vectors.keys("accepted_keys"));
    private final NodeId node = NodeId.of(vectors.text("node"));

    private LetterFile.Opened read(byte[] file) {
        ByteArrayInputStream bytes = new ByteArrayInputStream(file);
        try {
            return LetterFile.read(into -> bytes.readNBytes(into, 0, into.length), keyring, node);
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible);
        }
    }

    @TestFactory
    Stream<DynamicTest> aLetterSaysWhatIsKnownOfItsMessage() {
        return vectors.each("valid", one -> {
            LetterFile.Opened opened = read(one.bytes("hex"));
            Contract stated = one.object("letter");
            assertEquals(
                    new DeadLetter(
                            stated.text("type"),
                            stated.text("source"),
                            stated.sequence("sequence"),
                            stated.number("timestamp_ms"),
                            stated.number("deliveries"),
                            stated.text("error_code"),
                            stated.text("error_message"),
                            stated.number("died_at_ms"),
                            stated.number("payload_bytes")),
                    opened.letter());
            assertArrayEquals(one.bytes("payload_hex"), opened.payload());
        });
    }

    @TestFactory
    Stream<DynamicTest> whatIsNoLetterIsRefused() {
        return Stream.concat(
                vectors.each("invalid", one -> assertEquals("BAD_PAYLOAD", reason(one))),
                vectors.each("unknown_key", one -> assertEquals("UNKNOWN_KEY", reason(one))));
    }

    private String reason(Contract one) {
        return assertThrows(WireException.class, () -> read(one.bytes("hex"))).reason();
    }

    @Test
    void whatIsWrittenIsReadAgain() throws IOException {
        for (int bytes : new int[] {0, 1, LetterFile.CHUNK_BYTES, 2 * LetterFile.CHUNK_BYTES + 7}) {
            byte[] payload = new byte[bytes];
            new SecureRandom().nextBytes(payload);
            DeadLetter letter = new DeadLetter("EVENT", "analytics", -1, 2, 3, "EXECUTION_FAILED", "why", 4, bytes);
            ByteArrayOutputStream file = new ByteArrayOutputStream();
            LetterFile.write(
                    letter,
                    (from, into) -> System.arraycopy(payload, (int) from, into, 0, into.length),
                    keyring,
                    node,
                    new SecureRandom()::nextBytes,
                    file::writeBytes);
            assertEquals(letter, read(file.toByteArray()).letter());
            assertArrayEquals(payload, read(file.toByteArray()).payload());
        }
    }
}
