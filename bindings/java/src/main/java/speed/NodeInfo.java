package speed;

import java.util.List;
import speed.internal.wire.Entry;
import speed.internal.wire.Names;

/**
 * A live node as its registry entry describes it. Immutable: what it said when it was looked at.
 *
 * @param name of the node
 * @param generation how often the name was claimed
 * @param host where it runs
 * @param pid of its process
 * @param language of its implementation
 * @param status {@code online} or {@code leaving}
 * @param fabrics its labels
 * @param allow the grants that it publishes
 * @param deny what is excepted from them: what is more specific decides
 * @param subscriptions topic patterns of the events it wants
 * @param shared those of them whose events go to one node of its family each
 * @param identity fingerprint of its identity; empty without one
 * @param identities the grants that it publishes of one identity, {@code name@fingerprint}
 */
public record NodeInfo(
        String name,
        int generation,
        String host,
        long pid,
        String language,
        String status,
        List<String> fabrics,
        List<String> allow,
        List<String> deny,
        List<String> subscriptions,
        List<String> shared,
        String identity,
        List<String> identities) {

    /**
     * Whether the grants that it publishes let a node write to it; one that is of an identity counts for its name.
     *
     * @param node its name
     * @return what it said when it was looked at
     */
    public boolean allows(String node) {
        return identities.stream().anyMatch(one -> Names.nameIn(one).equals(node)) || Entry.grants(allow, deny, node);
    }

    /**
     * Whether it is meant by a pattern.
     *
     * @param pattern a name, a family such as {@code geo.*}, or {@code *}
     * @return true if its name is, or is of the family
     */
    public boolean isOneOf(String pattern) {
        return Names.matches(pattern, name);
    }
}
