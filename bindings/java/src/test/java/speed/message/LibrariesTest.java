package speed.message;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import speed.internal.message.Compression;
import speed.internal.wire.Json;
import speed.internal.wire.Sodium.SodiumArrays;
import speed.message.LoadedKey.RandomBytes;
import speed.message.SigningKeys.Ed25519Key;
import speed.message.SigningKeys.SodiumEd25519Key;

/** M-17, M-19, M-24: which library makes the bytes does not matter, and one that is absent is named. */
class LibrariesTest {
    @Test
    void theSignaturesOfLibsodiumAreThoseOfTheJdk() throws Exception {
        assertTrue(SodiumArrays.AVAILABLE);
        byte[] seed = RandomBytes.of(32);
        SodiumEd25519Key one = SodiumEd25519Key.ofSecret(seed);
        Ed25519Key other = Ed25519Key.ofSecret(seed);
        assertArrayEquals(other.publicBytes(), one.publicBytes());
        for (byte[] message : List.of(new byte[0], new byte[1], RandomBytes.of(10_000))) {
            assertArrayEquals(other.sign(message), one.sign(message));
            assertTrue(one.holds(other.sign(message), message));
        }
    }

    @Test
    void theCiphertextsOfLibsodiumAreThoseOfTheJdk() throws GeneralSecurityException {
        String name = Algorithm.CHACHA20_POLY1305.label();
        byte[] key = RandomBytes.of(32);
        byte[] iv = RandomBytes.of(12);
        PayloadCipher one = new PayloadCipher(name, key, true);
        PayloadCipher other = new PayloadCipher(name, key, false);
        for (int bytes : new int[] {0, 1, 10_000}) {
            byte[] data = RandomBytes.of(bytes);
            byte[] sealed = one.seal(iv, data, key);
            assertArrayEquals(other.seal(iv, data, key), sealed);
            assertArrayEquals(data, other.open(iv, sealed, key));
            assertArrayEquals(data, one.open(iv, sealed, key));
            sealed[0] ^= 1;
            assertThrows(GeneralSecurityException.class, () -> one.open(iv, sealed, key));
        }
        for (byte[] wrong : List.of(new byte[0], new byte[11], new byte[13])) {
            assertThrows(GeneralSecurityException.class, () -> one.seal(wrong, key, key));
            assertThrows(GeneralSecurityException.class, () -> one.open(wrong, key, key));
        }
        assertThrows(GeneralSecurityException.class, () -> one.open(iv, new byte[15], key));
        assertThrows(GeneralSecurityException.class, () -> new PayloadCipher(name, new byte[31]).seal(iv, key, key));
    }

    @Test
    void postQuantumAlgorithmsAreNotAvailableWithoutBouncyCastle() throws ReflectiveOperationException, IOException {
        try (URLClassLoader without = new URLClassLoader(classPathWithout("bcprov"), null)) {
            Method parse = without.loadClass(MessageKey.class.getName()).getMethod("parse", String.class);
            for (Algorithm algorithm : List.of(Algorithm.ML_KEM_768, Algorithm.X25519_ML_KEM_1024, Algorithm.X_WING)) {
                assertNotAvailable("bcprov", () -> parse.invoke(null, record(algorithm)));
            }
            parse.invoke(null, record(Algorithm.X25519));
        }
    }

    @Test
    void allEncodingsButGzipAreNotAvailableWithoutAircompressor() throws ReflectiveOperationException, IOException {
        try (URLClassLoader without = new URLClassLoader(classPathWithout("aircompressor"), null)) {
            Method compress = without.loadClass(Compression.class.getName())
                    .getDeclaredMethod("compress", String.class, byte[].class);
            compress.setAccessible(true);
            for (String encoding : List.of("zstd", "lz4", "snappy")) {
                assertNotAvailable("aircompressor", () -> compress.invoke(null, encoding, new byte[9]));
            }
            compress.invoke(null, "gzip", new byte[9]);
        }
    }

    private static void assertNotAvailable(String library, Executable asking) {
        Throwable refused =
                assertThrows(InvocationTargetException.class, asking).getCause();
        assertEquals("speed.errors.NotAvailableException", refused.getClass().getName());
        assertTrue(refused.getMessage().contains(library));
    }

    private static String record(Algorithm algorithm) {
        String secret = Base64.getEncoder().encodeToString(new byte[algorithm.secretBytes]);
        return Json.write(Map.of("id", "k", "algorithm", algorithm.label(), "secret", secret));
    }

    private static URL[] classPathWithout(String library) throws MalformedURLException {
        List<URL> kept = new ArrayList<>();
        for (String one : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!one.contains(library)) {
                kept.add(Path.of(one).toUri().toURL());
            }
        }
        return kept.toArray(new URL[0]);
    }
}
