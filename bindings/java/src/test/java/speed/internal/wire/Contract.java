package speed.internal.wire;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.function.ThrowingConsumer;
import speed.tool.PlainJson.Notation;

/** Reads the files of registry_spec/ for the tests. */
public final class Contract {
    private static final Path HOME = Path.of(System.getProperty("speed.contract"));

    private final Map<?, ?> values;

    public Contract(Map<?, ?> values) {
        this.values = values;
    }

    /** One JSON file of the contract. */
    public static Contract file(String name) {
        try {
            return new Contract((Map<?, ?>) Json.parse(Files.readString(HOME.resolve(name))));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    public static Contract vectors(String name) {
        return file("vectors/" + name + ".json");
    }

    /** One test for each case of a list, named after the case and the mistake that it catches. */
    public Stream<DynamicTest> each(String list, ThrowingConsumer<Contract> test) {
        return cases(list).stream()
                .map(one -> DynamicTest.dynamicTest(
                        one.values.get("name") + ": " + one.values.get("bug"), () -> test.accept(one)));
    }

    public List<Contract> cases(String list) {
        return ((List<?>) values.get(list))
                .stream().map(item -> new Contract((Map<?, ?>) item)).toList();
    }

    public Object get(String name) {
        return values.get(name);
    }

    public boolean has(String name) {
        return values.containsKey(name);
    }

    public Map<?, ?> values() {
        return values;
    }

    public Contract object(String name) {
        return new Contract((Map<?, ?>) values.get(name));
    }

    public String text(String name) {
        return (String) values.get(name);
    }

    public long number(String name) {
        return (Long) values.get(name);
    }

    public byte[] bytes(String name) {
        return HexFormat.of().parseHex(text(name));
    }

    /** A sequence: 16 hexadecimal digits. */
    public long sequence(String name) {
        return Long.parseUnsignedLong(text(name), 16);
    }

    public List<byte[]> keys(String name) {
        return ((List<?>) values.get(name))
                .stream().map(key -> HexFormat.of().parseHex((String) key)).toList();
    }

    /** A value in the notation of the vectors. */
    public Object value(String name) {
        return Notation.value(values.get(name));
    }

    /** A value as text that is equal exactly for equal values of equal kinds in equal order. */
    public static String spelled(Object value) {
        if (value instanceof byte[] bytes) {
            return "bytes " + HexFormat.of().formatHex(bytes);
        }
        if (value instanceof Double number) {
            return "float " + Long.toHexString(Double.doubleToRawLongBits(number));
        }
        if (value instanceof List<?> items) {
            return items.stream().map(Contract::spelled).toList().toString();
        }
        if (value instanceof Map<?, ?> map) {
            StringBuilder spelled = new StringBuilder("map");
            map.forEach((key, item) -> spelled.append(String.format(" <%s=%s>", spelled(key), spelled(item))));
            return spelled.toString();
        }
        return value == null ? "nil" : value.getClass().getSimpleName() + " " + value;
    }
}
