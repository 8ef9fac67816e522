package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.WireException;
import speed.internal.core.LaneDecoder;
import speed.internal.wire.Aead.JdkAead;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Header.Sequence;

/** W-4 to W-13: envelopes of the lane analytics to billing. */
class EnvelopesTest {
    private static final int ROOM = 4096;

    private final Contract vectors = Contract.vectors("envelopes");
    private final NodeId source = NodeId.of(vectors.text("source"));
    private final NodeId target = NodeId.of(vectors.text("target"));
    private final Keyring ring = new Keyring(vectors.keys("accepted_keys"));

    @TestFactory
    Stream<DynamicTest> aValidEnvelopeOpensWithTheStatedMeaning() {
        return vectors.each("valid", one -> {
            Block envelope = Block.of(one.bytes("envelope"));
            Header header = Header.parse(envelope.bytes, 0, envelope.size);
            byte[] payload = new LinkOpener(ring, source, target).open(header, envelope, 0, new Block(ROOM));
            assertArrayEquals(one.bytes("payload"), payload);
            assertEquals(one.number("type"), header.type().number());
            assertEquals(one.number("flags"), header.flags());
            assertEquals(one.sequence("sequence"), header.sequence());
            assertEquals(one.number("timestamp_ms"), header.timestampMs());
        });
    }

    @TestFactory
    Stream<DynamicTest> anEnvelopeIsWrittenAsStated() {
        return vectors.each("valid", one -> assertArrayEquals(one.bytes("envelope"), sealed(one)));
    }

    @TestFactory
    Stream<DynamicTest> bothCiphersGiveTheSameBytes() {
        return vectors.each("valid", one -> {
            byte[] key =
                    Keyring.linkKey(one.bytes("key"), source, target, Sequence.generation(one.sequence("sequence")), 0);
            Block envelope = Block.of(one.bytes("envelope"));
            Block payload = new Block(ROOM);
            int bytes = one.bytes("payload").length;
            assertEquals(true, new JdkAead(key).open(envelope, 0, bytes, payload));
            assertArrayEquals(one.bytes("payload"), payload.copy(0, bytes));
            envelope.bytes.put(Limits.AAD_BYTES, one.bytes("payload"));
            new JdkAead(key).seal(envelope, 0, bytes);
            assertArrayEquals(one.bytes("envelope"), envelope.copy(0, envelope.size));
        });
    }

    @TestFactory
    Stream<DynamicTest> anInvalidEnvelopeIsRefusedWithItsCode() {
        return vectors.each("invalid", one -> assertEquals(one.text("error"), refusal(one.bytes("envelope"))));
    }

    private byte[] sealed(Contract one) {
        byte[] nonce = one.bytes("nonce");
        Keyring sealing = new Keyring(List.of(one.bytes("key")));
        LinkSealer sealer = new LinkSealer(
                sealing,
                source,
                target,
                Sequence.generation(one.sequence("sequence")),
                nonces -> System.arraycopy(nonce, 0, nonces, 0, nonce.length));
        Block envelope = new Block(ROOM);
        int bytes = sealer.seal(
                envelope,
                0,
                EnvelopeType.of((int) one.number("type")),
                (int) one.number("flags"),
                Sequence.counter(one.sequence("sequence")),
                one.number("timestamp_ms"),
                one.bytes("payload"));
        return envelope.copy(0, bytes);
    }

    /** What a lane says of the bytes, at the end of a finished segment. */
    private String refusal(byte[] bytes) {
        Block envelope = Block.of(bytes.length == 0 ? new byte[1] : bytes);
        try {
            Header header = Header.parse(envelope.bytes, 0, bytes.length);
            LinkOpener opener = new LinkOpener(ring, source, target);
            LaneDecoder decoder =
                    new LaneDecoder(source, target, (found, data, at) -> opener.open(found, data, at, new Block(ROOM)));
            LaneDecoder.Scan scan = decoder.scan(
                    new LaneDecoder.Window(envelope, bytes.length, 0, header.generation(), true, false), 1);
            return scan.items().get(0) instanceof LaneDecoder.Damage damage ? damage.reason() : "accepted";
        } catch (WireException refused) {
            return refused.reason();
        }
    }

    /** W-8: a sequence is never used twice, so its end is the end of the generation. */
    @Test
    void aCounterBeyondItsBitsIsRefused() {
        LinkSealer sealer = new LinkSealer(ring, source, target, 1, nonces -> {});
        Block envelope = new Block(ROOM);
        for (long counter : new long[] {0, Sequence.MAX_COUNTER + 1}) {
            assertThrows(
                    IllegalStateException.class,
                    () -> sealer.seal(envelope, 0, EnvelopeType.MESSAGE, 0, counter, 1, new byte[0]));
        }
        sealer.seal(envelope, 0, EnvelopeType.MESSAGE, 0, Sequence.MAX_COUNTER, 1, new byte[0]);
    }

    /** W-12: whichever library looks. */
    @Test
    void oneAlteredBitIsFoundByBothCiphers() {
        byte[] key = Keyring.linkKey(new byte[32], source, target, 1, 0);
        for (Aead aead : List.of(Keyring.aead(key), new JdkAead(key))) {
            Block envelope = new Block(ROOM);
            aead.seal(envelope, 0, 40);
            assertTrue(aead.open(envelope, 0, 40, new Block(ROOM)));
            envelope.bytes.put(100, (byte) (envelope.bytes.get(100) ^ 1));
            assertFalse(aead.open(envelope, 0, 40, new Block(ROOM)));
        }
    }

    /** Forged generations must not fill memory: only a few keys are kept. */
    /** The cipher writes there also when the tag is wrong. */
    @Test
    void memoryThatAnEnvelopeDoesNotFitIsNeverWritten() {
        Aead aead = Keyring.aead(new byte[Limits.KEY_BYTES]);
        Block envelope = new Block(ROOM);
        assertThrows(IndexOutOfBoundsException.class, () -> aead.open(envelope, 0, 40, new Block(39)));
        assertThrows(IndexOutOfBoundsException.class, () -> aead.open(envelope, ROOM - 100, 40, new Block(ROOM)));
        assertThrows(IndexOutOfBoundsException.class, () -> aead.seal(envelope, ROOM - 100, 40));
    }

    @Test
    void envelopesOfManyGenerationsAreOpened() {
        LinkOpener opener = new LinkOpener(ring, source, target);
        for (int generation = 1; generation <= 40; generation++) {
            Block envelope = new Block(ROOM);
            int bytes = new LinkSealer(ring, source, target, generation, nonces -> {})
                    .seal(envelope, 0, EnvelopeType.MESSAGE, 0, 1, 1, new byte[] {7});
            Header header = Header.parse(envelope.bytes, 0, bytes);
            assertArrayEquals(new byte[] {7}, opener.open(header, envelope, 0, new Block(ROOM)));
        }
    }
}
