package speed.tool;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import speed.Node;

/** A command line of words and {@code --name value} options; an option may be given several times. */
public final class Arguments {
    private final List<String> words = new ArrayList<>();
    private final Map<String, List<String>> options = new HashMap<>();

    /** Reads a command line; the flags take no value. */
    public Arguments(String[] line, String... flags) {
        for (int index = 0; index < line.length; index++) {
            String word = line[index];
            if (!word.startsWith("--")) {
                words.add(word);
            } else if (List.of(flags).contains(word)) {
                options.put(word, List.of());
            } else if (index + 1 < line.length) {
                options.computeIfAbsent(word, any -> new ArrayList<>()).add(line[++index]);
            } else {
                throw new IllegalArgumentException(word + " needs a value");
            }
        }
    }

    public List<String> words() {
        return words;
    }

    public boolean has(String option) {
        return options.containsKey(option);
    }

    public List<String> all(String option) {
        return options.getOrDefault(option, List.of());
    }

    public String get(String option, String otherwise) {
        List<String> values = all(option);
        return values.isEmpty() ? otherwise : values.get(values.size() - 1);
    }

    public String get(String option) {
        String value = get(option, null);
        if (value == null) {
            throw new IllegalArgumentException(option + " is missing");
        }
        return value;
    }

    /** The beginning of a node in the root that {@code --root} and {@code --key} name. */
    Node.Builder builder(String name) {
        return Node.builder(name).root(Path.of(get("--root"))).key(Path.of(get("--key")));
    }
}
