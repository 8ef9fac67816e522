package speed;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * Sees the other nodes of a root: which are live, what they offer, how they are doing.
 *
 * <p>All methods are thread-safe and throw {@link speed.errors.NodeClosedException} once the node is closed. Those that
 * ask another node wait five seconds for its answer, and throw {@link speed.errors.CallTimeoutException} after that.
 */
public interface Peers {
    /**
     * The live nodes, sorted by name.
     *
     * @return this one too
     */
    List<NodeInfo> nodes();

    /**
     * The live nodes that carry a label.
     *
     * @param fabric the label
     * @return sorted by name
     */
    default List<NodeInfo> nodes(String fabric) {
        return nodes().stream().filter(node -> node.fabrics().contains(fabric)).toList();
    }

    /**
     * Waits until a node is live and allows this one.
     *
     * @param target name of the node
     * @param timeout longest wait
     * @return the node
     * @throws speed.errors.UnknownNodeException when it was not so in time
     */
    NodeInfo waitFor(String target, Duration timeout);

    /**
     * Calls a handler when another node joins.
     *
     * @param handler called on a worker
     */
    void onJoin(Consumer<NodeInfo> handler);

    /**
     * Calls a handler when another node leaves, dies or is replaced.
     *
     * @param handler called on a worker
     */
    void onLeave(Consumer<NodeInfo> handler);

    /**
     * Removes the entries of nodes that are gone, never their claims.
     *
     * @return their names
     */
    List<String> removeStale();

    /**
     * Measures a round trip to a live node, by HEARTBEAT.
     *
     * @param target name of the node
     * @return the time it took
     */
    Duration ping(String target);

    /**
     * Names of the services of a node that this node may call.
     *
     * @param target name of the node
     * @return sorted names
     */
    List<String> services(String target);

    /**
     * What the services of a node take and give that this node may call.
     *
     * @param target name of the node
     * @return maps with {@code name}, {@code summary}, {@code version}, {@code streaming}, {@code idempotent} and
     *     {@code columns}, and with {@code parameters} and {@code result}, JSON Schema, where the service declares them;
     *     sorted by name
     * @throws speed.errors.InvalidArgumentsException from a node that does not describe
     */
    List<Map<String, Object>> describe(String target);

    /**
     * The same of a family whose nodes must describe their services alike, as before a program relies on what one of them
     * says. {@link #describe} only warns.
     *
     * @param family of nodes, {@code pricing.*}; up to 64 of them are asked
     * @return what each of them describes
     * @throws speed.errors.ConfigurationException where two of them differ, in the version of a service or otherwise
     */
    List<Map<String, Object>> describeAlike(String family);

    /**
     * What a node says about itself: language, version, pid, fabrics, services.
     *
     * @param target name of the node
     * @return by field name
     */
    Map<String, Object> info(String target);

    /**
     * Counters of another node.
     *
     * @param target name of the node
     * @return by field name
     */
    Map<String, Object> stats(String target);
}
