package shop;

import java.nio.file.Path;
import java.util.Map;
import speed.Node;
import speed.Root;

/** Two nodes in a root of their own, which the argument names. */
public final class Main {
    private Main() {}

    /**
     * Makes the root and its key, and has one node call the other.
     *
     * @param words the root
     */
    public static void main(String[] words) {
        Path root = Root.init(Path.of(words[0]));
        try (Node billing =
                        Node.builder("billing").root(root).allow("analytics").open();
                Node analytics = Node.builder("analytics").root(root).open()) {
            billing.register("tax", request -> request.get("amount", Double.class) * 0.18);
            System.out.println(analytics.call("billing", "tax", Map.of("amount", 1000)));
        }
    }
}
