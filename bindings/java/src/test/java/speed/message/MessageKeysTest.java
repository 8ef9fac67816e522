package speed.message;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.security.GeneralSecurityException;
import java.security.KeyPairGenerator;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.KeyRefusedException;
import speed.errors.UnknownAlgorithmException;
import speed.errors.WeakAlgorithmException;
import speed.internal.wire.Contract;
import speed.internal.wire.Json;

/** M-24, M-26: keys as they are written down, and the algorithms that there are. */
class MessageKeysTest {
    private static final String SOUND =
            MessageKey.generate("k", Algorithm.AES_256_GCM).toJson();

    @Test
    void theAlgorithmsAreThoseOfTheContract() {
        Contract table = Contract.file("algorithms.json");
        Map<Object, Object> rows = new HashMap<>(table.object("encryption").values());
        rows.putAll(table.object("signature").values());
        assertEquals(Algorithm.values().length, rows.size());
        rows.forEach((name, row) -> {
            Contract stated = new Contract((Map<?, ?>) row);
            Algorithm here = Algorithm.of((String) name);
            boolean signs = stated.has("signature");
            assertEquals(signs ? 0 : stated.number("type"), here.type);
            assertEquals(signs ? "" : stated.text("cipher"), here.cipher);
            assertEquals(stated.number(signs ? "signature" : "encapsulated"), here.outputBytes);
            assertEquals(stated.get("secret") == null ? -1 : stated.number("secret"), here.secretBytes);
            assertEquals(stated.get("public") == null ? -1 : stated.number("public"), here.publicBytes);
            assertEquals(stated.get("strict"), here.strict);
        });
        assertEquals(table.object("aliases").values(), Algorithm.ALIASES);
        assertEquals(Set.copyOf((List<?>) table.get("refused")), Algorithm.REFUSED);
        Contract limits = table.object("limits");
        assertEquals(limits.number("max_recipients"), Algorithm.MAX_RECIPIENTS);
        assertEquals(limits.number("max_key_uses"), Algorithm.MAX_KEY_USES);
        assertEquals(limits.number("min_rsa_bits"), Algorithm.MIN_RSA_BITS);
        assertEquals(limits.number("max_key_id_bytes"), Algorithm.MAX_KEY_ID_BYTES);
        assertEquals(limits.number("future_tolerance_ms"), Algorithm.FUTURE_TOLERANCE_MS);
        assertEquals(limits.number("wrapped_key_bytes"), Algorithm.WRAPPED_KEY_BYTES);
    }

    @Test
    void weakAndUnknownAlgorithmsAreRefusedByName() {
        for (String weak : List.of("AES-128-GCM", "rsa-oaep-2048", "md5", "sha-1", "3des", "rc4", "des")) {
            assertThrows(WeakAlgorithmException.class, () -> Algorithm.of(weak), weak);
        }
        assertThrows(UnknownAlgorithmException.class, () -> Algorithm.of("rot13"));
        assertEquals(Algorithm.ML_KEM_768, Algorithm.of("ML-Kem-768"));
        assertThrows(WeakAlgorithmException.class, () -> Algorithm.of("MD5"));
        for (String other : List.of("ml-\u212aem-768", "\u212ayber768", "X25519-\u212aYBER1024")) { // of Kelvin
            assertThrows(UnknownAlgorithmException.class, () -> Algorithm.of(other), other);
        }
        assertEquals(Algorithm.ML_KEM_1024, Algorithm.of("Kyber1024"));
    }

    @TestFactory
    Stream<DynamicTest> aKeyWrittenDownAndReadIsTheSameKey() {
        return Stream.of(Algorithm.values())
                .map(algorithm -> DynamicTest.dynamicTest(algorithm.label(), () -> {
                    MessageKey made = MessageKey.generate("k", algorithm)
                            .withBounds(KeyBounds.NONE
                                    .withNamespaces("prod")
                                    .withTopics("orders.*")
                                    .withPublishers("billing")
                                    .withTime(1, 5));
                    assertEquals(made.toJson(), MessageKey.parse(made.toJson()).toJson());
                    if (!algorithm.isShared()) {
                        MessageKey shown = made.publicPart();
                        assertArrayEquals(
                                made.publicBytes(),
                                MessageKey.parse(shown.toJson()).publicBytes());
                        assertFalse(shown.hasSecret());
                        assertFalse(shown.toJson().contains("secret"));
                    }
                }));
    }

    @TestFactory
    Stream<DynamicTest> aMalformedRecordIsRefused() {
        Map<String, Object> changes = new HashMap<>();
        changes.put("more", 1);
        changes.put("topics", "orders");
        changes.put("publishers", List.of(1));
        changes.put("not_before_ms", "now");
        changes.put("not_after_ms", true);
        changes.put("id", 7);
        return Stream.concat(
                changes.entrySet().stream().map(one -> refused(one.getKey(), one.getValue())),
                Stream.of("%%", "AAAA", "AAA", 5).map(value -> refused("secret", value)));
    }

    private static DynamicTest refused(String field, Object value) {
        return DynamicTest.dynamicTest(field + " " + value, () -> {
            Map<Object, Object> fields = new HashMap<>((Map<?, ?>) Json.parse(SOUND));
            fields.put(field, value);
            assertThrows(KeyRefusedException.class, () -> MessageKey.of(fields));
        });
    }

    @Test
    void aSetThatIsNoSetIsRefused() {
        for (String text : List.of("", "[]", "7", "null", "[1]", "{", "[" + SOUND + "," + SOUND + ",2]")) {
            assertThrows(KeyRefusedException.class, () -> MessageKey.parseAll(text), text);
        }
        assertThrows(KeyRefusedException.class, () -> MessageKey.parse("[" + SOUND + "," + SOUND + "]"));
        assertThrows(KeyRefusedException.class, () -> MessageKey.parseAll("[" + SOUND + "," + SOUND + "]"));
        String another = MessageKey.generate("other", Algorithm.AES_256_GCM).toJson();
        assertEquals(2, MessageKey.parseAll("[" + SOUND + "," + another + "]").size());
    }

    @Test
    void keyIdsThatTraversePathsAreRefused() {
        for (String id : List.of("", "../etc", ".hidden", "-rf", "a/b", "a..b", "x".repeat(129), "a\n", "é")) {
            assertThrows(KeyRefusedException.class, () -> MessageKey.generate(id, Algorithm.AES_256_GCM), id);
        }
    }

    @Test
    void bytesThatAreNoSuchKeyAreRefused() {
        for (Algorithm algorithm : Algorithm.values()) {
            assertThrows(
                    KeyRefusedException.class,
                    () -> new MessageKey("k", algorithm, new byte[31], null, KeyBounds.NONE),
                    algorithm.label());
            assertThrows(
                    KeyRefusedException.class,
                    () -> new MessageKey("k", algorithm, null, new byte[31], KeyBounds.NONE),
                    algorithm.label());
        }
        byte[] notReduced = new byte[1568];
        Arrays.fill(notReduced, (byte) 0xFF);
        assertThrows(
                KeyRefusedException.class,
                () -> new MessageKey("k", Algorithm.ML_KEM_1024, null, notReduced, KeyBounds.NONE));
        assertThrows(
                KeyRefusedException.class,
                () -> MessageKey.generate("k", Algorithm.HMAC_SHA256).publicPart());
    }

    @Test
    void aShortRsaKeyIsRefusedWhenItIsLoaded() throws GeneralSecurityException {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2048);
        byte[] secret = generator.generateKeyPair().getPrivate().getEncoded();
        assertThrows(
                WeakAlgorithmException.class,
                () -> new MessageKey("k", Algorithm.RSA_OAEP_3072, secret, null, KeyBounds.NONE));
    }

    @Test
    void anRsaKeyOfAnotherSizeOrAlgorithmIsRefused() {
        byte[] larger = KeyLoader.newSecret(Algorithm.RSA_OAEP_4096);
        MessageKey key = new MessageKey("k", Algorithm.RSA_OAEP_4096, larger, null, KeyBounds.NONE);
        assertThrows(
                KeyRefusedException.class,
                () -> new MessageKey("k", Algorithm.RSA_OAEP_3072, larger, null, KeyBounds.NONE));
        assertThrows(
                KeyRefusedException.class,
                () -> new MessageKey("k", Algorithm.RSA_OAEP_3072, null, key.publicBytes(), KeyBounds.NONE));
        assertThrows(
                KeyRefusedException.class,
                () -> new MessageKey("k", Algorithm.RSA_OAEP_3072, null, larger, KeyBounds.NONE));
    }

    @Test
    void aSecretOfAnotherLengthUnderRsaDoesNotOpen() throws GeneralSecurityException {
        RsaKey rsa = (RsaKey) MessageKey.generate("k", Algorithm.RSA_OAEP_3072).loaded();
        byte[] short16 = rsa.encrypt(new byte[16], new byte[0]);
        assertThrows(GeneralSecurityException.class, () -> rsa.decapsulate(short16));
    }

    @Test
    void aKeyNeedsBytes() {
        for (Algorithm algorithm : Algorithm.values()) {
            assertThrows(KeyRefusedException.class, () -> new MessageKey("k", algorithm, null, null, KeyBounds.NONE));
        }
        assertThrows(
                KeyRefusedException.class,
                () -> new MessageKey("k", Algorithm.HMAC_SHA256, null, new byte[0], KeyBounds.NONE));
        assertThrows(KeyRefusedException.class, () -> KeyRecord.checkId(null));
    }

    @Test
    void noKeyShowsItsBytes() {
        for (Algorithm algorithm : Algorithm.values()) {
            MessageKey key = MessageKey.generate("k", algorithm);
            assertEquals("MessageKey k " + algorithm.label(), key.toString());
            assertFalse(key.loaded().toString().contains("[B@"), algorithm.label());
            if (!algorithm.isShared()) {
                assertEquals(
                        "MessageKey k " + algorithm.label() + " (public)",
                        key.publicPart().toString());
            }
        }
    }
}
