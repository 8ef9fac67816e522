// Pulsar's own Java client, for the tests: publishes, or receives what others published.
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.*;

public class Peer {
    record Keys(Path directory) implements CryptoKeyReader {
        public EncryptionKeyInfo getPublicKey(String name, Map<String, String> metadata) {
            return read(name + ".public.pem");
        }

        public EncryptionKeyInfo getPrivateKey(String name, Map<String, String> metadata) {
            return read(name + ".private.pem");
        }

        private EncryptionKeyInfo read(String file) {
            try {
                return new EncryptionKeyInfo(Files.readAllBytes(directory.resolve(file)), Map.of());
            } catch (java.io.IOException error) {
                throw new RuntimeException(error);
            }
        }
    }

    /** publish URL TOPIC KEYS NAMES COMPRESSION BATCH COUNT, or receive URL TOPIC KEYS COUNT. */
    public static void main(String[] words) throws Exception {
        int status = 0;
        try (PulsarClient client = PulsarClient.builder().serviceUrl(words[1]).build()) {
            if (words[0].equals("publish")) {
                publish(client, words);
            } else {
                receive(client, words);
            }
        }
        System.exit(status);
    }

    private static void publish(PulsarClient client, String[] words) throws Exception {
        ProducerBuilder<byte[]> builder = client.newProducer()
                .topic(words[2])
                .cryptoKeyReader(new Keys(Path.of(words[3])))
                .compressionType(CompressionType.valueOf(words[5]))
                .enableBatching(words[6].equals("true"))
                .batchingMaxPublishDelay(2, TimeUnit.SECONDS);
        for (String name : words[4].split(",")) builder.addEncryptionKey(name);
        try (Producer<byte[]> producer = builder.create()) {
            for (int number = 0; number < Integer.parseInt(words[7]); number++) {
                producer.newMessage()
                        .key("key " + number)
                        .property("number", "" + number)
                        .eventTime(1000 + number)
                        .value(("message " + number + " of Java, of Java, of Java").getBytes())
                        .sendAsync();
            }
            producer.flush();
        }
    }

    private static void receive(PulsarClient client, String[] words) throws Exception {
        try (Consumer<byte[]> consumer = client.newConsumer()
                .topic(words[2])
                .subscriptionName("java")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .cryptoKeyReader(new Keys(Path.of(words[3])))
                .subscribe()) {
            for (int number = 0; number < Integer.parseInt(words[4]); number++) {
                Message<byte[]> message = consumer.receive(30, TimeUnit.SECONDS);
                System.out.println(Base64.getEncoder().encodeToString(message.getData()));
                consumer.acknowledge(message);
            }
        }
    }
}
