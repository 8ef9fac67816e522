package speed.message;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.security.GeneralSecurityException;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.function.ThrowingConsumer;
import speed.errors.EncryptionException;
import speed.errors.KeyRefusedException;
import speed.errors.MessageException;
import speed.internal.wire.Contract;
import speed.internal.wire.Hashes;
import speed.internal.wire.Security.Encrypted.Recipient;
import speed.message.Encryption.Wrapping;
import speed.message.ExchangeKeys.HybridKey;
import speed.message.LoadedKey.Signer;
import speed.message.PayloadContext.Prefixed;
import speed.message.SigningKeys.Ed25519Key;

/** Published cases of Wycheproof through our own keys and ciphers (M-17, M-19, M-21). */
class WycheproofTest {
    private static final String HOME = "../tests/unit/message/wycheproof/";
    private static final byte[] IV = new byte[12];
    private static final byte[] CONTEXT = new byte[32];
    private static final byte[] DATA_KEY = new byte[32];
    private static final byte[] NONE = {};

    private static Stream<DynamicTest> each(String file, ThrowingConsumer<Contract> test) {
        return Contract.file(HOME + file + ".json").cases("tests").stream()
                .map(one -> DynamicTest.dynamicTest(
                        file + " " + one.number("tcId") + ": " + one.text("comment"), () -> test.accept(one)));
    }

    private static boolean isValid(Contract one) {
        return one.text("result").equals("valid");
    }

    private static MessageKey secret(Algorithm algorithm, byte[] bytes) {
        return new MessageKey("wycheproof", algorithm, bytes, null, KeyBounds.NONE);
    }

    private static MessageKey shown(Algorithm algorithm, byte[] bytes) {
        return new MessageKey("wycheproof", algorithm, null, bytes, KeyBounds.NONE);
    }

    /** The data key as who encapsulated that secret would have wrapped it. */
    private static Recipient wrapped(MessageKey key, byte[] secret, byte[] encapsulated)
            throws GeneralSecurityException {
        byte[] info = new Prefixed("speed/1 message key")
                .text(key.algorithm().label())
                .bytes(encapsulated)
                .bytes(key.publicBytes())
                .text(key.id())
                .raw(CONTEXT)
                .toByteArray();
        byte[] sealed = new PayloadCipher(key.algorithm().cipher, Hashes.hkdf(secret, info)).seal(IV, DATA_KEY, NONE);
        return new Recipient(key.id(), encapsulated, sealed);
    }

    private static byte[] unwrapped(MessageKey key, Recipient from) {
        return new Wrapping(key, IV, CONTEXT).unwrap(from);
    }

    @TestFactory
    Stream<DynamicTest> aCipherOpensWhatIsValidAndNothingElse() {
        return Stream.concat(
                cipherCases("aes_gcm", Algorithm.AES_256_GCM),
                cipherCases("chacha20_poly1305", Algorithm.CHACHA20_POLY1305));
    }

    private static Stream<DynamicTest> cipherCases(String file, Algorithm algorithm) {
        return each(file, one -> {
            PayloadCipher cipher = new PayloadCipher(algorithm.cipher, one.bytes("key"));
            byte[] sealed = HybridKey.joined(one.bytes("ct"), one.bytes("tag"));
            if (isValid(one)) {
                assertArrayEquals(one.bytes("msg"), cipher.open(one.bytes("iv"), sealed, one.bytes("aad")));
                assertArrayEquals(sealed, cipher.seal(one.bytes("iv"), one.bytes("msg"), one.bytes("aad")));
            } else {
                assertThrows(
                        GeneralSecurityException.class, () -> cipher.open(one.bytes("iv"), sealed, one.bytes("aad")));
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> rsaOaepOpensWhatIsValidAndNothingElse() {
        return Stream.of(Algorithm.RSA_OAEP_3072, Algorithm.RSA_OAEP_4096).flatMap(algorithm -> {
            String file = algorithm.label().replace('-', '_') + "_sha256_mgf1sha256";
            MessageKey key =
                    secret(algorithm, Contract.file(HOME + file + ".json").bytes("pkcs8"));
            RsaKey rsa = (RsaKey) key.loaded();
            return each(file, one -> {
                if (isValid(one)) {
                    assertArrayEquals(one.bytes("msg"), rsa.decrypt(one.bytes("ct"), one.bytes("label")));
                    return;
                }
                assertThrows(GeneralSecurityException.class, () -> rsa.decrypt(one.bytes("ct"), one.bytes("label")));
                Recipient from = new Recipient(key.id(), one.bytes("ct"), new byte[48]);
                assertThrows(EncryptionException.class, () -> unwrapped(key, from));
            });
        });
    }

    /** Ours has no salt (M-21); the cases that have one are judged as HMAC. */
    @TestFactory
    Stream<DynamicTest> hkdfDerivesThePublishedKeys() {
        return each("hkdf_sha256", one -> {
            byte[] first = Arrays.copyOf(one.bytes("okm"), Math.min(32, one.bytes("okm").length));
            if (one.bytes("salt").length == 0) {
                assertArrayEquals(first, Arrays.copyOf(Hashes.hkdf(one.bytes("ikm"), one.bytes("info")), first.length));
            }
            MessageKey key = secret(Algorithm.HMAC_SHA256, Hashes.hmac(one.bytes("salt"), one.bytes("ikm")));
            byte[] covered = HybridKey.joined(one.bytes("info"), new byte[] {1});
            boolean isWhole = first.length == 32;
            assertEquals(isWhole, ((Signer) key.loaded()).holds(first, covered));
            first[first.length - 1] ^= 1;
            assertFalse(((Signer) key.loaded()).holds(first, covered));
        });
    }

    @TestFactory
    Stream<DynamicTest> ed25519SignaturesAreJudgedAsPublished() {
        return each("ed25519", one -> {
            MessageKey key = shown(Algorithm.ED25519, one.bytes("pk"));
            for (Signer signer : List.of((Signer) key.loaded(), Ed25519Key.ofPublic(one.bytes("pk")))) {
                assertEquals(isValid(one), signer.holds(one.bytes("sig"), one.bytes("msg")));
            }
        });
    }

    /** A data key wrapped under the published secret opens; one under a secret of zeros never does. */
    @TestFactory
    Stream<DynamicTest> x25519SecretsAreThosePublishedAndZeroIsRefused() {
        return each("x25519", one -> {
            MessageKey key = secret(Algorithm.X25519, one.bytes("private"));
            Recipient from = wrapped(key, one.bytes("shared"), one.bytes("public"));
            if (((List<?>) one.get("flags")).contains("ZeroSharedSecret")) {
                assertThrows(EncryptionException.class, () -> unwrapped(key, from));
            } else {
                assertArrayEquals(DATA_KEY, unwrapped(key, from));
            }
        });
    }

    /** An altered ciphertext gives the secret of implicit rejection, which is published too. */
    @TestFactory
    Stream<DynamicTest> mlKemSecretsAreThosePublishedAndWrongLengthsAreRefused() {
        return mlKem("", (algorithm, one) -> {
            if (isValid(one)) {
                MessageKey key = secret(algorithm, one.bytes("seed"));
                assertArrayEquals(DATA_KEY, unwrapped(key, wrapped(key, one.bytes("K"), one.bytes("c"))));
            } else {
                Recipient from = new Recipient("wycheproof", one.bytes("c"), new byte[48]);
                MessageException refused = assertThrows(
                        MessageException.class, () -> unwrapped(secret(algorithm, one.bytes("seed")), from));
                assertTrue(List.of("KEY_REFUSED", "BAD_ENCRYPTION").contains(refused.code()));
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> anMlKemKeyIsTakenWhereItIsValidAndRefusedOtherwise() {
        return mlKem("_encaps", (algorithm, one) -> {
            if (isValid(one)) {
                MessageKey key = shown(algorithm, one.bytes("ek"));
                assertEquals(
                        algorithm.outputBytes,
                        new Wrapping(key, IV, CONTEXT).wrap(DATA_KEY).encapsulatedKey().length);
            } else {
                assertThrows(KeyRefusedException.class, () -> shown(algorithm, one.bytes("ek")));
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> anMlKemSeedGivesThePublishedKey() {
        return mlKem(
                "_keygen_seed",
                (algorithm, one) -> assertArrayEquals(
                        one.bytes("ek"), secret(algorithm, one.bytes("seed")).publicBytes()));
    }

    private static Stream<DynamicTest> mlKem(String what, Judge judge) {
        return Stream.concat(
                each("mlkem_768" + what, one -> judge.check(Algorithm.ML_KEM_768, one)),
                each("mlkem_1024" + what, one -> judge.check(Algorithm.ML_KEM_1024, one)));
    }

    /** One case of an algorithm. */
    private interface Judge {
        void check(Algorithm algorithm, Contract one) throws GeneralSecurityException;
    }
}
