// The keys of a Pulsar's WebSocket service, which encrypts and decrypts with them: files in `keys`, where it runs.
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.pulsar.client.api.CryptoKeyReader;
import org.apache.pulsar.client.api.EncryptionKeyInfo;
import org.apache.pulsar.websocket.CryptoKeyReaderFactory;

public class ServerKeys implements CryptoKeyReaderFactory {
    public CryptoKeyReader create() {
        return new CryptoKeyReader() {
            public EncryptionKeyInfo getPublicKey(String name, Map<String, String> metadata) {
                return read(name + ".public.pem");
            }

            public EncryptionKeyInfo getPrivateKey(String name, Map<String, String> metadata) {
                return read(name + ".private.pem");
            }
        };
    }

    /** Nothing for a key that is not there. */
    private static EncryptionKeyInfo read(String file) {
        try {
            return new EncryptionKeyInfo(Files.readAllBytes(Path.of("keys", file)), Map.of());
        } catch (IOException error) {
            return null;
        }
    }
}
