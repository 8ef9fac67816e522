package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The words of this implementation are those of the contract (W-0). */
class ContractTest {
    @Test
    void everyCodeInTheSourcesIsInCodesJson() throws IOException {
        Contract codes = Contract.file("codes.json");
        Set<Object> known = new HashSet<>();
        for (String list : List.of("spc", "local", "message", "wire")) {
            known.addAll((List<?>) codes.get(list));
        }
        Pattern quoted = Pattern.compile("(?:super|this|WireException|require|Response\\.error|refused?|badMessage)\\("
                + "[^\";]*\"([A-Z]+_[A-Z_]+)\"");
        try (Stream<Path> sources = Files.walk(Path.of("src/main/java/speed"))) {
            for (Path source : sources.filter(ContractTest::isOfTheLibrary).toList()) {
                Matcher found = quoted.matcher(Files.readString(source));
                while (found.find()) {
                    assertTrue(known.contains(found.group(1)), source + ": " + found.group(1));
                }
            }
        }
    }

    /** Programs, as those of the package {@code tool}, may answer with codes of their own (S-19). */
    private static boolean isOfTheLibrary(Path source) {
        return source.toString().endsWith(".java") && !source.startsWith("src/main/java/speed/tool");
    }
}
