package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import speed.internal.wire.Contract;

/** Errors say what the contract has for them, as those of the other languages do. */
class TextsTest {
    private static final Map<String, Method> WRITTEN = Arrays.stream(Texts.class.getDeclaredMethods())
            .filter(method -> method.getReturnType() == String.class)
            .collect(Collectors.toMap(Method::getName, Function.identity()));

    @Test
    void eachTextOfTheContractIsSaidAsItIsThere() throws ReflectiveOperationException {
        List<Contract> texts = Contract.file("codes.json").cases("texts");
        assertEquals(texts.size(), WRITTEN.size());
        for (Contract one : texts) {
            String expected = (String) one.get("text");
            Object[] given = ((List<?>) one.get("given"))
                    .stream().map(name -> "<" + name + ">").toArray();
            for (Object name : (List<?>) one.get("given")) {
                expected = expected.replace("{" + name + "}", "<" + name + ">");
            }
            assertEquals(expected, WRITTEN.get(camel((String) one.get("name"))).invoke(null, given));
        }
    }

    private static String camel(String name) {
        StringBuilder joined = new StringBuilder();
        for (String word : name.split("_")) {
            joined.append(joined.isEmpty() ? word : word.substring(0, 1).toUpperCase(Locale.ROOT) + word.substring(1));
        }
        return joined.toString();
    }
}
