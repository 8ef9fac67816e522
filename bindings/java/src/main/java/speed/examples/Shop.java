package speed.examples;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import speed.Node;
import speed.errors.InvalidArgumentsException;
import speed.message.MessageKey;
import speed.message.MessageSecurity;
import speed.message.Protection;
import speed.message.SchemaReference;
import speed.options.SendOptions;

/**
 * Node {@code shop}: sends orders through the gateway, signed by it and encrypted for the desk. The Java version of
 * {@code examples/orders/shop.py}: same orders, same arguments.
 *
 * <p>{@code speed-java speed.examples.Shop KEYS --count 20 --schemas DIRECTORY}, where {@code KEYS} has {@code shop.json}
 * (secret) and {@code desk.public.json}; root and key come from {@code $SPEED_ROOT} and {@code $SPEED_KEY}.
 */
public final class Shop {
    private static final Duration WAIT = Duration.ofSeconds(60);
    private static final String GATEWAY = "gateway";

    private Shop() {}

    /**
     * Sells, and tells what became of an order that is wrong. Exit status: 0 it was refused, 1 it was not.
     *
     * @param arguments directory of key files, {@code --count} and a number, {@code --schemas} and a directory
     * @throws IOException for a file that cannot be read
     */
    public static void main(String[] arguments) throws IOException {
        Path keys = Path.of(arguments[0]);
        int count = Integer.parseInt(option(arguments, "--count"));
        byte[] schema = Files.readAllBytes(Path.of(option(arguments, "--schemas"), "OrderCreated", "v1.json"));
        Protection protection = Protection.NONE
                .signWith(key(keys, "shop.json"))
                .encryptTo(key(keys, "desk.public.json"))
                .compressed("gzip")
                .classified("confidential")
                .withPii();
        SendOptions options = SendOptions.DEFAULT
                .withTopic("orders.created")
                .withAcknowledgement()
                .withTimeout(WAIT)
                .withSchema(SchemaReference.of("OrderCreated", "v1", "json-schema", schema));
        MessageSecurity security = MessageSecurity.NONE.withDefaults(protection);
        try (Node node = Node.builder("shop").security(security).open()) {
            node.waitFor(GATEWAY, WAIT);
            for (int number = 1; number <= count; number++) {
                node.send(GATEWAY, order(number), options);
            }
            System.out.printf("shop      | %d orders sent, the desk has acknowledged each%n", count);
            node.send(GATEWAY, Map.of("order", 1), options);
        } catch (InvalidArgumentsException refused) {
            System.out.printf("refused   | an order without a price: %s%n", code(refused));
            return;
        }
        System.err.println("shop: an order without a price was accepted");
        System.exit(1);
    }

    /** Order {@code number}, counted from 1; its price is in cents. */
    private static Map<String, Object> order(int number) {
        return Map.of("order", number, "cents", 1_999 + 37 * number, "card", "4000-0000-0000-%04d".formatted(number));
    }

    private static MessageKey key(Path keys, String file) throws IOException {
        return MessageKey.parse(Files.readString(keys.resolve(file)));
    }

    private static String option(String[] arguments, String name) {
        return arguments[Arrays.asList(arguments).indexOf(name) + 1];
    }

    /** The last code in the text of a refusal; whoever passed it on wrote its own name before it. */
    private static String code(InvalidArgumentsException refused) {
        return Arrays.stream(refused.getMessage().split(": "))
                .filter(word -> word.matches("[A-Z_]+"))
                .reduce((first, second) -> second)
                .orElse("no code");
    }
}
