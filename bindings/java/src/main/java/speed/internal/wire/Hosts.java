package speed.internal.wire;

import java.util.List;
import speed.errors.InvalidNameException;

/** Names across hosts: {@code billing@hostb}, and patterns such as {@code etl.*@hosta} (H-1, H-9). */
public final class Hosts {
    /** The node of a root that carries to other hosts. */
    public static final String GATEWAY = "speedd.hosts";

    private static final int MAX_HOST_CHARACTERS = 32;

    private Hosts() {}

    /** Whether a name is one of another host's node. */
    public static boolean isRemote(String target) {
        return target.indexOf('@') >= 0;
    }

    /** The same name, if it is {@code node@host}; InvalidNameException. */
    public static String checkRemote(String target) {
        int at = target.indexOf('@');
        Names.checkNode(at < 0 ? target : target.substring(0, at));
        checkHost(at < 0 ? "" : target.substring(at + 1));
        return target;
    }

    /** A grant as nodes of this root know it: {@code etl.*@hosta} is about stand-ins. InvalidNameException. */
    public static String localGrant(String pattern) {
        int at = pattern == null ? -1 : pattern.indexOf('@');
        if (at < 0 || Names.namesIdentity(pattern)) {
            return pattern; // the policy checks it
        }
        String node = pattern.substring(0, at);
        String host = checkHost(pattern.substring(at + 1));
        if (!node.equals("*")) {
            Names.checkGrant(node);
        }
        return Names.checkGrant("at." + host + "." + node);
    }

    /** The same for several. */
    public static String[] localGrants(List<String> patterns) {
        return patterns.stream().map(Hosts::localGrant).toArray(String[]::new);
    }

    /** Whether this is the name of a host. */
    public static boolean isHost(String name) {
        return !name.isEmpty()
                && name.length() <= MAX_HOST_CHARACTERS
                && isLetterOrDigit(name.charAt(0))
                && name.chars().allMatch(one -> isLetterOrDigit(one) || one == '-' || one == '_');
    }

    private static String checkHost(String name) {
        if (!isHost(name)) {
            throw new InvalidNameException("'" + Printable.text(name) + "' is no name of a host: use 1 to "
                    + MAX_HOST_CHARACTERS + " letters, digits, - and _");
        }
        return name;
    }

    private static boolean isLetterOrDigit(int one) {
        return one >= 'a' && one <= 'z' || one >= 'A' && one <= 'Z' || one >= '0' && one <= '9';
    }
}
