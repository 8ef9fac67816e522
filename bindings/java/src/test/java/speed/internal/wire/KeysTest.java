package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.List;
import java.util.stream.Stream;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.ConfigurationException;
import speed.errors.KeyFileException;

/** W-14 key files, W-9 key ids, W-10 link keys, W-11 registry and lane keys. */
class KeysTest {
    private final Contract vectors = Contract.vectors("keys");

    @TestFactory
    Stream<DynamicTest> aKeyFileHoldsTheStatedKeys() {
        return vectors.each("valid", one -> {
            List<byte[]> keys = KeyFile.parse(one.text("text").getBytes(StandardCharsets.UTF_8));
            List<byte[]> expected = one.keys("keys");
            assertEquals(expected.size(), keys.size());
            for (int index = 0; index < keys.size(); index++) {
                assertArrayEquals(expected.get(index), keys.get(index));
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> aBrokenKeyFileIsRefusedWithoutShowingIt() {
        return vectors.each("invalid", one -> {
            byte[] text = one.text("text").getBytes(StandardCharsets.UTF_8);
            KeyFileException error = assertThrows(KeyFileException.class, () -> KeyFile.parse(text));
            assertFalse(error.getMessage().contains("AAEC"), "a key is shown");
        });
    }

    @TestFactory
    Stream<DynamicTest> keysAreDerivedAsStated() {
        return vectors.each("derived", one -> {
            byte[] key = one.bytes("key");
            Keyring ring = new Keyring(List.of(key));
            NodeId source = NodeId.of(one.text("source"));
            NodeId target = NodeId.of(one.text("target"));
            assertEquals(Long.parseUnsignedLong(one.text("key_id"), 16), Keyring.keyId(key));
            assertArrayEquals(one.bytes("registry_key"), ring.registryKeys().get(0));
            assertArrayEquals(
                    one.bytes("lane_key"), ring.laneKeys(source, target).get(0));
            int generation = (int) one.number("generation");
            assertArrayEquals(one.bytes("link_key"), Keyring.linkKey(key, source, target, generation, (int)
                    one.number("target_life")));
        });
    }

    /** W-14: a ring of nothing, or of half a key, is a mistake of the program; what it shows is no key. */
    @Test
    void aKeyringHoldsWholeKeysAndNeverShowsThem() {
        assertThrows(ConfigurationException.class, () -> new Keyring(List.of()));
        assertThrows(ConfigurationException.class, () -> new Keyring(List.of(new byte[31])));
        assertEquals("Keyring of 1 keys", new Keyring(List.of(new byte[32])).toString());
    }

    /** RFC 2104: a key longer than a block is hashed first. */
    @Test
    void aLongKeyIsHashedFirst() throws GeneralSecurityException {
        byte[] key = new byte[100];
        Mac reference = Mac.getInstance("HmacSHA256");
        reference.init(new SecretKeySpec(key, "HmacSHA256"));
        assertArrayEquals(reference.doFinal(new byte[7]), Hashes.hmac(key, new byte[7]));
    }
}
