package speed.message;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static speed.message.Written.VALUE;
import static speed.message.Written.message;
import static speed.message.Written.opened;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.StringValue;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.CompressionException;
import speed.errors.ConfigurationException;
import speed.errors.EncryptionException;
import speed.errors.KeyExhaustedException;
import speed.errors.KeyRefusedException;
import speed.errors.NoRecipientKeyException;
import speed.errors.NotAvailableException;
import speed.errors.NotClearedException;
import speed.errors.NotEncryptedException;
import speed.errors.PayloadTooLargeException;
import speed.errors.UnsignedException;
import speed.errors.WeakAlgorithmException;
import speed.errors.WireException;
import speed.internal.message.Compression;
import speed.internal.message.OpenedMessage;
import speed.internal.wire.Content;
import speed.internal.wire.Limits;
import speed.internal.wire.MessageFront;
import speed.internal.wire.MessageView;
import speed.internal.wire.Schema;
import speed.internal.wire.Security;
import speed.message.Guard.KeyUses;

/** M-16 to M-28, M-32: messages protected and opened, and what is refused. */
class ProtectionTest {
    private static final List<String> ENCODINGS = List.of("none", "gzip", "zstd", "lz4", "snappy");

    @TestFactory
    Stream<DynamicTest> whatIsEncryptedOpensToTheSameValue() {
        return Arrays.stream(Algorithm.values())
                .filter(one -> !one.isSignature())
                .map(algorithm -> DynamicTest.dynamicTest(algorithm.label(), () -> {
                    MessageKey key = MessageKey.generate("reader-1", algorithm);
                    for (String encoding : ENCODINGS) {
                        MessageView view =
                                message(VALUE, Protection.NONE.encryptTo(key).compressed(encoding));
                        String seen = new String(view.bytes(), StandardCharsets.ISO_8859_1);
                        assertFalse(seen.contains("4111"));
                        assertEquals(VALUE, opened(view, key).payload());
                        assertEquals("reader-1", opened(view, key).openedBy());
                    }
                }));
    }

    @Test
    void eachOfManyRecipientsOpensTheMessage() {
        List<MessageKey> keys = Stream.of("a", "b", "c")
                .map(id -> MessageKey.generate(id, Algorithm.X_WING))
                .toList();
        MessageKey[] shown = keys.stream().map(MessageKey::publicPart).toArray(MessageKey[]::new);
        MessageView view = message(VALUE, Protection.NONE.encryptTo(shown));
        keys.forEach(key -> assertEquals(VALUE, opened(view, key).payload()));
    }

    @Test
    void whoIsNoRecipientGetsANamedErrorAndNotThePayload() {
        MessageKey key = MessageKey.generate("theirs", Algorithm.X25519);
        MessageView view = message(VALUE, Protection.NONE.encryptTo(key));
        assertThrows(NoRecipientKeyException.class, () -> opened(view, MessageKey.generate("mine", Algorithm.X25519)));
        assertThrows(NoRecipientKeyException.class, () -> opened(view, key.publicPart()));
        assertThrows(WireException.class, view::payload);
    }

    @Test
    void twoEncryptionsOfOnePayloadShareNoCiphertext() {
        MessageKey key = MessageKey.generate("k", Algorithm.AES_256_GCM);
        MessageView one = message(new byte[64], Protection.NONE.encryptTo(key));
        MessageView other = message(new byte[64], Protection.NONE.encryptTo(key));
        assertNotEquals(hex(one.payloadBytes()), hex(other.payloadBytes()));
        assertNotEquals(
                hex(one.security().encryption().iv()),
                hex(other.security().encryption().iv()));
    }

    @Test
    void recipientsOfDifferentAlgorithmsOrOfOneIdAreRefused() {
        MessageKey one = MessageKey.generate("one", Algorithm.X25519);
        MessageKey other = MessageKey.generate("other", Algorithm.AES_256_GCM);
        assertThrows(EncryptionException.class, () -> message(VALUE, Protection.NONE.encryptTo(one, other)));
        assertThrows(EncryptionException.class, () -> message(VALUE, Protection.NONE.encryptTo(one, one)));
        MessageKey[] many = new MessageKey[65];
        Arrays.setAll(many, n -> MessageKey.generate("k" + n, Algorithm.AES_256_GCM));
        assertThrows(EncryptionException.class, () -> message(VALUE, Protection.NONE.encryptTo(many)));
        MessageKey signer = Written.signer(Algorithm.ED25519);
        assertThrows(EncryptionException.class, () -> message(VALUE, Protection.NONE.encryptTo(signer)));
    }

    @Test
    void rsaItselfTakesItsBoundAndNotOneByteMore() {
        MessageKey rsa = MessageKey.generate("rsa", Algorithm.RSA_OAEP_3072);
        Protection direct = Protection.NONE.encryptTo(rsa).directly();
        assertArrayEquals(
                new byte[318], opened(message(new byte[318], direct), rsa).payloadBytes());
        assertThrows(PayloadTooLargeException.class, () -> message(new byte[319], direct));
        MessageKey other = MessageKey.generate("other", Algorithm.X25519);
        assertThrows(
                EncryptionException.class,
                () -> message("x", Protection.NONE.encryptTo(other).directly()));
        assertThrows(
                ConfigurationException.class,
                () -> message("x", Protection.NONE.encryptTo(rsa, other).directly()));
    }

    @Test
    void aSignatureCoversTheCiphertextSoThatWhoMayNotReadCanVerify() {
        MessageKey signer = Written.signer(Algorithm.ED25519);
        MessageKey reader = MessageKey.generate("reader-1", Algorithm.X25519);
        MessageView view = message(VALUE, Protection.NONE.encryptTo(reader).signWith(signer));
        TrustedKeys trusted = new TrustedKeys(List.of(signer.publicPart()));
        assertEquals(
                "signer-1",
                trusted.check(view, SignaturePolicy.REQUIRE, FipsMode.OFF).id());
    }

    @Test
    void thePolicyRequireRefusesUnsignedMessagesAndVerifyLetsThemPass() {
        MessageKey signer = Written.signer(Algorithm.HMAC_SHA256);
        MessageView plain = message(VALUE, Protection.NONE);
        MessageView signed = message(VALUE, Protection.NONE.signWith(signer));
        MessageSecurity verify = MessageSecurity.NONE.withPolicy(SignaturePolicy.VERIFY, signer);
        assertNull(new Guard(verify, "").open(plain, Written.AT_MS, "").signedBy());
        Guard requiring = new Guard(verify.withPolicy(SignaturePolicy.REQUIRE, signer), "");
        assertEquals("signer-1", requiring.open(signed, Written.AT_MS, "").signedBy());
        assertThrows(UnsignedException.class, () -> requiring.open(plain, Written.AT_MS, ""));
        assertThrows(ConfigurationException.class, () -> MessageSecurity.NONE.withPolicy(SignaturePolicy.VERIFY));
    }

    @Test
    void aMessageOfTheFutureIsRefusedByWhoLooksAtSignatures() {
        MessageKey signer = Written.signer(Algorithm.ED25519);
        MessageView signed = message(VALUE, Protection.NONE.signWith(signer));
        Guard guard = new Guard(MessageSecurity.NONE.withPolicy(SignaturePolicy.REQUIRE, signer), "");
        guard.open(signed, Written.AT_MS - 300_000, "");
        WireException early = assertThrows(WireException.class, () -> guard.open(signed, Written.AT_MS - 300_001, ""));
        assertEquals("BAD_MESSAGE", early.reason());
        assertTrue(early.getMessage().contains("published_at_ms"));
    }

    @Test
    void strictRefusesWhatNistDoesNotApproveOnBothSides() {
        MessageSecurity strict = MessageSecurity.NONE.withFipsMode(FipsMode.STRICT);
        for (Algorithm algorithm : List.of(Algorithm.CHACHA20_POLY1305, Algorithm.X25519, Algorithm.X_WING)) {
            MessageKey key = MessageKey.generate("k", algorithm);
            Protection protection = Protection.NONE.encryptTo(key);
            assertThrows(WeakAlgorithmException.class, () -> message(strict, VALUE, protection));
            Guard guard = new Guard(strict.withKeys(key), "");
            assertThrows(WeakAlgorithmException.class, () -> guard.open(message(VALUE, protection), Written.AT_MS, ""));
        }
        MessageKey approved = MessageKey.generate("k", Algorithm.ML_KEM_1024);
        assertTrue(message(strict, VALUE, Protection.NONE.encryptTo(approved)).isEncrypted());
    }

    @Test
    void aConfidentialMessageInTheClearIsNeitherWrittenNorRead() {
        assertThrows(NotEncryptedException.class, () -> message(VALUE, Protection.NONE.classified("confidential")));
        assertThrows(ConfigurationException.class, () -> message(VALUE, Protection.NONE.classified("secret")));
        MessageKey key = MessageKey.generate("k", Algorithm.AES_256_GCM);
        MessageView view =
                message(VALUE, Protection.NONE.classified("restricted").encryptTo(key));
        Guard confidential = new Guard(MessageSecurity.NONE.withKeys(key).withClearance("confidential"), "");
        assertThrows(NotClearedException.class, () -> confidential.open(view, Written.AT_MS, ""));
        Guard restricted = new Guard(MessageSecurity.NONE.withKeys(key).withClearance("restricted"), "");
        assertEquals(VALUE, restricted.open(view, Written.AT_MS, "").payload());
    }

    @Test
    void defaultsOfANodeHoldWhereAMessageSaysNothing() {
        MessageKey key = MessageKey.generate("k", Algorithm.AES_256_GCM);
        MessageSecurity usual =
                MessageSecurity.NONE.withDefaults(Protection.NONE.encryptTo(key).compressed("gzip"));
        assertTrue(message(usual, VALUE, Protection.NONE).isEncrypted());
        MessageView clear = message(usual, VALUE, Protection.NONE.encryptTo());
        assertFalse(clear.isEncrypted());
        assertEquals("gzip", clear.contentEncoding());
    }

    @Test
    void aBombIsRefusedBeforeItIsInflated() {
        for (String encoding : ENCODINGS.subList(1, ENCODINGS.size())) {
            byte[] bomb = Compression.compress(encoding, new byte[8 << 20]);
            assertThrows(CompressionException.class, () -> Compression.decompress(encoding, bomb, 1), encoding);
            long above = Limits.MAX_PAYLOAD_BYTES + 1L;
            assertThrows(CompressionException.class, () -> Compression.decompress(encoding, bomb, above), encoding);
            assertThrows(CompressionException.class, () -> Compression.decompress(encoding, bomb, -1), encoding);
            assertThrows(CompressionException.class, () -> Compression.decompress(encoding, new byte[3], 9), encoding);
        }
        assertThrows(CompressionException.class, () -> message(VALUE, Protection.NONE.compressed("brotli")));
        byte[] large = new byte[Limits.MAX_PAYLOAD_BYTES + 1];
        assertThrows(CompressionException.class, () -> message(large, Protection.NONE.compressed("gzip")));
    }

    @Test
    void whatNoEnvelopeHoldsIsNotSigned() {
        Protection signed = Protection.NONE.signWith(Written.signer(Algorithm.HMAC_SHA256));
        byte[] large = new byte[Limits.MAX_PAYLOAD_BYTES];
        assertThrows(NotAvailableException.class, () -> message(large, signed));
    }

    /** M-16: the signature counts as well. */
    @Test
    void whatOnlyItsSignatureMakesTooLongIsNotSent() {
        MessageKey signer = Written.signer(Algorithm.HMAC_SHA256);
        Protection signed = Protection.NONE.signWith(signer);
        int half = Limits.MAX_PAYLOAD_BYTES / 2; // its lengths take as many bytes
        int most = Limits.MAX_PAYLOAD_BYTES
                - (int) (message(new byte[half], signed).size() - half);
        MessageView largest = message(new byte[most], signed);
        assertEquals(Limits.MAX_PAYLOAD_BYTES, largest.size());
        Guard guard = new Guard(MessageSecurity.NONE.withPolicy(SignaturePolicy.REQUIRE, signer), "");
        assertEquals("signer-1", guard.open(largest, Written.AT_MS, "").signedBy());
        assertThrows(NotAvailableException.class, () -> message(new byte[most + 1], signed));
    }

    /** M-4, M-19: of an enum the low 32 bits count. */
    @Test
    void theTypeOfAnEncryptionHas32Bits() {
        MessageKey key = MessageKey.generate("k", Algorithm.X_WING);
        byte[] sound = message(VALUE, Protection.NONE.encryptTo(key)).bytes();
        for (String type : List.of("04", "8480808010", "84808080f0ffffffff01")) {
            assertEquals(VALUE, opened(withType(sound, type), key).payload());
        }
        for (String type : List.of("00", "03", "8380808010", "8480808008")) {
            assertThrows(EncryptionException.class, () -> opened(withType(sound, type), key), type);
        }
    }

    /** The message with one more security record, which says the type anew. */
    private static MessageView withType(byte[] message, String varint) {
        int bytes = varint.length() / 2;
        byte[] record = HexFormat.of().parseHex(String.format("12%02x32%02x10%s", bytes + 3, bytes + 1, varint));
        byte[] both = Arrays.copyOf(message, message.length + record.length);
        System.arraycopy(record, 0, both, message.length, record.length);
        return MessageView.of(both);
    }

    /** G-18: what lies in a store and claims nothing is left there, unless it had to be signed. */
    @Test
    void whatNoEnvelopeHoldsIsNotVerified() {
        int bytes = Limits.MAX_PAYLOAD_BYTES;
        byte[] front = Written.draft().encodeFront(bytes);
        MessageView stored = MessageView.of(new MessageFront(front, (long) front.length + bytes), () -> new byte[0]);
        MessageKey signer = Written.signer(Algorithm.ED25519);
        MessageSecurity verify = MessageSecurity.NONE.withPolicy(SignaturePolicy.VERIFY, signer);
        assertSame(stored, new Guard(verify, "").open(stored, Written.AT_MS, "").view());
        Guard requiring = new Guard(verify.withPolicy(SignaturePolicy.REQUIRE, signer), "");
        assertThrows(NotAvailableException.class, () -> requiring.open(stored, Written.AT_MS, ""));
    }

    /** M-9. */
    @Test
    void anEncodingThatIsNotReadHereIsHandedOutAsItIs() {
        byte[] bytes = {11, 2};
        MessageKey key = MessageKey.generate("k", Algorithm.AES_256_GCM);
        Content content = new Content(99, "text/plain", null, bytes, 7, 0);
        PayloadContext context = PayloadContext.of(Written.draft(), content, Schema.NONE, Protection.NONE);
        Encryption.Made made = Encryption.encrypt(bytes, List.of(key), context);
        MessageView view = MessageView.of(Written.draft()
                .encode(
                        content.withData(made.ciphertext()),
                        Security.ofPublisher("billing").withEncryption(made.how()),
                        Schema.NONE));
        OpenedMessage opened = opened(view, key);
        assertArrayEquals(bytes, opened.payloadBytes());
        assertTrue(
                assertThrows(WireException.class, opened::payload).getMessage().contains("unknown/7"));
        MessageView clear = MessageView.of(Written.draft().encode(content, Security.ofPublisher("b"), Schema.NONE));
        assertArrayEquals(bytes, opened(clear).payloadBytes());
        assertThrows(WireException.class, () -> opened(clear).payload());
    }

    @Test
    void teamAndFurtherBytesTravelInTheClearAndAreBound() {
        MessageKey key = MessageKey.generate("k", Algorithm.AES_256_GCM);
        MessageView view = message(
                MessageSecurity.NONE.withPublisherTeam("payments"),
                "",
                Protection.NONE.encryptTo(key).compressed("gzip").withAad(new byte[] {1, 2}));
        assertEquals("payments", view.security().publisherTeam());
        assertArrayEquals(new byte[] {1, 2}, view.security().encryption().aad());
        assertEquals("none", view.contentEncoding()); // a payload of nothing is left alone
        assertEquals("", opened(view, key).payload());
    }

    @Test
    void aProtobufPayloadIsBoundToItsType() throws InvalidProtocolBufferException {
        MessageKey key = MessageKey.generate("k", Algorithm.AES_256_GCM);
        MessageView view = message(StringValue.of("x"), Protection.NONE.encryptTo(key));
        assertEquals(
                "x",
                ((Any) opened(view, key).payload()).unpack(StringValue.class).getValue());
    }

    @Test
    void aKeyIsUsedWithinItsBoundsByWritersAndReaders() {
        MessageKey key = MessageKey.generate("k", Algorithm.AES_256_GCM);
        MessageView view = message(VALUE, Protection.NONE.encryptTo(key));
        for (KeyBounds outside : List.of(
                KeyBounds.NONE.withTopics("flights"),
                KeyBounds.NONE.withNamespaces("prod"),
                KeyBounds.NONE.withTime(0, 5),
                KeyBounds.NONE.withTime(Written.AT_MS + 1, Long.MAX_VALUE))) {
            MessageKey bound = key.withBounds(outside);
            assertThrows(KeyRefusedException.class, () -> message(VALUE, Protection.NONE.encryptTo(bound)));
            assertThrows(KeyRefusedException.class, () -> opened(view, bound));
        }
        KeyBounds inside = KeyBounds.NONE.withTopics("orders.*").withTime(Written.AT_MS, Written.AT_MS);
        assertEquals(VALUE, opened(view, key.withBounds(inside)).payload());
        assertThrows(
                KeyRefusedException.class,
                () -> message(
                        VALUE,
                        Protection.NONE.signWith(
                                Written.signer(Algorithm.ED25519).publicPart())));
    }

    @Test
    void aKeyThatWasUsedAsOftenAsItMayIsExhausted() {
        KeyUses uses = new KeyUses(2);
        MessageKey key = MessageKey.generate("k", Algorithm.AES_256_GCM);
        uses.count(key);
        uses.count(MessageKey.generate("k", Algorithm.AES_256_GCM)); // the id counts, not the object
        assertThrows(KeyExhaustedException.class, () -> uses.count(key));
    }

    @Test
    void schemaAndPersonalDataAreNamed() {
        byte[] file = "{}".getBytes(StandardCharsets.UTF_8);
        SchemaReference schema = SchemaReference.of("order", "2", "json-schema", file);
        MessageView view = MessageView.of(new Guard(MessageSecurity.NONE, "")
                .write(Written.draft(), Map.of(), Protection.NONE.withPii(), schema));
        assertTrue(view.security().containsPii());
        assertEquals("order", view.schema().name());
        assertEquals(
                "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
                view.schema().hash());
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
