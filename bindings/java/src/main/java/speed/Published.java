package speed;

import java.util.List;
import java.util.Map;

/**
 * What became of an event.
 *
 * @param delivered names of the nodes that got it, sorted
 * @param failed code by name, for those that subscribe to it and did not get it: ACCESS_DENIED where a node does not
 *     allow the publisher, INBOX_FULL where there was no room in time
 */
public record Published(List<String> delivered, Map<String, String> failed) {
    /**
     * How many nodes got it.
     *
     * @return their number
     */
    public int count() {
        return delivered.size();
    }
}
