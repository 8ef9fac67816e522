package speed.internal.wire;

import java.util.HexFormat;
import java.util.Set;
import java.util.regex.Pattern;
import speed.errors.InvalidNameException;

/** Names, and every path SPEED uses. No other class builds a path. */
public final class Names {
    public static final String REGISTRY = "speed_registry";
    public static final String CLAIMS = ".claims";
    public static final String STATEMENTS = ".identities";
    public static final String OBSERVERS = ".observers";
    public static final String FLOOR = "floor";
    public static final String FLOOR_LOCK = ".floor.lock";
    public static final String TEMPORARY_PREFIX = ".tmp-";
    public static final String SEGMENT_INDEX = "index.sqlite";

    private static final Set<String> RESERVED =
            Set.of(REGISTRY, "speed.key", "speed.key.new", "journal", "topics", "bell", "inbox", "quarantine");
    private static final Pattern DIGITS = Pattern.compile("[0-9]{2,10}");
    private static final Set<String> LETTER_STATES = Set.of("letter", "retry", "trying");
    private static final String OPENING = ".opening";
    private static final Pattern OPENED_KEY = Pattern.compile("[0-9a-f]{16}\\.opening");
    private static final Pattern SHARDS = Pattern.compile("[0-9a-f]{32}\\.shards");
    private static final int MAX_GENERATION = (1 << Limits.GENERATION_BITS) - 1;
    private static final long MAX_SEGMENT = (1L << 32) - 1;
    private static final String RULE = "use letters, digits, '_', '-' and single dots between them";

    private Names() {}

    // --- names ---

    /** Returns the name if it is a node name. */
    public static String checkNode(String name) {
        if (name != null && RESERVED.contains(name)) {
            throw new InvalidNameException(
                    "node name '" + name + "' is that of a file or directory of every root: choose another");
        }
        return check(name, "node name", Limits.MAX_NAME_BYTES, false);
    }

    /** Whether it is a node name. */
    public static boolean isNode(String name) {
        return name != null && !RESERVED.contains(name) && isDotted(name, Limits.MAX_NAME_BYTES, false);
    }

    /** Returns the name if it is a service name. */
    public static String checkService(String name) {
        return check(name, "service name", Limits.MAX_NAME_BYTES, false);
    }

    /** Whether it is a service name. */
    public static boolean isService(String name) {
        return name != null && isDotted(name, Limits.MAX_NAME_BYTES, false);
    }

    /** Returns the topic if events can be published on it. */
    public static String checkTopic(String topic) {
        return check(topic, "topic", Limits.MAX_TOPIC_BYTES, true);
    }

    /** Whether events can be published on it. */
    public static boolean isTopic(String topic) {
        return topic != null && isDotted(topic, Limits.MAX_TOPIC_BYTES, true);
    }

    /** Returns the pattern if it grants one node or a family {@code name.*}; nothing grants everyone. */
    public static String checkGrant(String pattern) {
        if ("*".equals(pattern)) {
            throw new InvalidNameException("'*' would allow everyone: name each node, or a family such as 'etl.*'");
        }
        checkNode(withoutFamily(pattern));
        return pattern;
    }

    /** Whether a grant is of one identity: {@code name@fingerprint}. */
    public static boolean namesIdentity(String pattern) {
        int at = pattern == null ? -1 : pattern.lastIndexOf('@');
        return at >= 0 && NodeIdentity.isFingerprint(pattern.substring(at + 1));
    }

    /** The name in a grant that is of one identity. */
    public static String nameIn(String grant) {
        return grant.substring(0, Math.max(0, grant.lastIndexOf('@')));
    }

    /** Returns the pattern if it is a topic, {@code topic.*} or {@code *}. */
    public static String checkTopicPattern(String pattern) {
        if (!"*".equals(pattern)) {
            checkTopic(withoutFamily(pattern));
        }
        return pattern;
    }

    /** The nodes that share events: of {@code pricing.1} they are {@code pricing.*}, of {@code pricing} it alone. */
    public static String familyOf(String name) {
        int point = name.lastIndexOf('.');
        return point < 0 ? name : name.substring(0, point) + ".*";
    }

    /** Whether a pattern (exact, {@code prefix.*} or {@code *}) covers a name. */
    public static boolean matches(String pattern, String name) {
        if (pattern.endsWith(".*")) {
            int prefix = pattern.length() - 1;
            return name.length() > prefix && name.regionMatches(0, pattern, 0, prefix);
        }
        return pattern.equals(name) || pattern.equals("*");
    }

    private static String withoutFamily(String pattern) {
        return pattern != null && pattern.endsWith(".*") ? pattern.substring(0, pattern.length() - 2) : pattern;
    }

    private static String check(String name, String what, int limit, boolean topic) {
        if (name == null || name.isEmpty()) {
            throw new InvalidNameException(what + " is empty: " + RULE);
        }
        if (name.length() > limit) {
            throw new InvalidNameException(what + " has " + name.length() + " characters; the limit is " + limit);
        }
        if (!isDotted(name, limit, topic)) {
            throw new InvalidNameException(what + " '" + name + "' is not allowed: " + RULE);
        }
        return name;
    }

    /** Parts of letters, digits, {@code _} and {@code -}, joined by single dots; only a topic begins with -. */
    private static boolean isDotted(String name, int limit, boolean topic) {
        if (name.isEmpty() || name.length() > limit || (!topic && name.charAt(0) == '-')) {
            return false;
        }
        boolean partIsEmpty = true;
        for (int index = 0; index < name.length(); index++) {
            char one = name.charAt(index);
            if (one == '.' ? partIsEmpty : !isWord(one)) {
                return false;
            }
            partIsEmpty = one == '.';
        }
        return !partIsEmpty;
    }

    private static boolean isWord(char one) {
        return one >= 'a' && one <= 'z'
                || one >= 'A' && one <= 'Z'
                || one >= '0' && one <= '9'
                || one == '_'
                || one == '-';
    }

    // --- paths of the registry ---

    public static String registryDirectory(String root) {
        return root + "/" + REGISTRY;
    }

    public static String claimsDirectory(String root) {
        return root + "/" + REGISTRY + "/" + CLAIMS;
    }

    public static String entryPath(String root, String name) {
        return root + "/" + REGISTRY + "/" + name + ".node";
    }

    public static String claimPath(String root, String name, int generation) {
        return claimsDirectory(root) + "/" + name + "." + six(generation);
    }

    public static String temporaryEntryPath(String root, String token) {
        return registryDirectory(root) + "/" + temporary(token);
    }

    /** Node name of an entry's file name, null for anything else. */
    public static String parseEntry(String filename) {
        String name = filename.endsWith(".node") ? filename.substring(0, filename.length() - 5) : "";
        return isNode(name) ? name : null;
    }

    /** The generation of a claim's file name if it is a claim of that node, else 0. */
    public static int parseClaim(String filename, String name) {
        int dot = filename.lastIndexOf('.');
        boolean fits = dot == name.length() && filename.startsWith(name);
        return fits ? generation(filename.substring(dot + 1)) : 0;
    }

    /** The node name of a claim's file name, null for anything else. */
    public static String parseClaim(String filename) {
        int dot = filename.lastIndexOf('.');
        String name = dot < 0 ? null : filename.substring(0, dot);
        return isNode(name) && parseClaim(filename, name) > 0 ? name : null;
    }

    // --- paths of a node ---

    public static String nodeDirectory(String root, String name) {
        return root + "/" + name;
    }

    public static String bellPath(String root, String name) {
        return root + "/" + name + "/bell";
    }

    public static String inboxDirectory(String root, String name) {
        return root + "/" + name + "/inbox";
    }

    public static String laneDirectory(String root, String target, String source) {
        return root + "/" + target + "/inbox/" + source;
    }

    public static String quarantineDirectory(String root, String name) {
        return root + "/" + name + "/quarantine";
    }

    /** What a node received in segments. */
    public static String segmentsDirectory(String root, String name) {
        return root + "/" + name + "/segments";
    }

    public static String segmentIndexPath(String root, String name) {
        return segmentsDirectory(root, name) + "/" + SEGMENT_INDEX;
    }

    /** The file that holds the segments of one payload. */
    public static String shardsName(byte[] payloadId) {
        return HexFormat.of().formatHex(payloadId) + ".shards";
    }

    public static boolean isShards(String filename) {
        return SHARDS.matcher(filename).matches();
    }

    // --- dead letters: a number and a state ---

    /** One of a node's dead letters as its file's name says; the state is letter, retry or trying. */
    public record Letter(int number, String state) {}

    public static String deadLettersDirectory(String root, String name) {
        return nodeDirectory(root, name) + "/dead";
    }

    public static String letterName(int number, String state) {
        return padded(number, 8) + "." + state;
    }

    /** What the name of a dead letter's file says, null for anything else. */
    public static Letter parseLetter(String filename) {
        int dot = filename.indexOf('.');
        String state = filename.substring(dot + 1);
        int number = dot < 0 ? 0 : (int) number(filename.substring(0, dot), 8, Integer.MAX_VALUE);
        return number > 0 && LETTER_STATES.contains(state) ? new Letter(number, state) : null;
    }

    public static String defaultKeyPath(String root) {
        return root + "/speed.key";
    }

    /** What an owner states of a name. */
    public static String statementPath(String root, String name) {
        return registryDirectory(root) + "/" + STATEMENTS + "/" + name;
    }

    /** Who may look at all nodes of a root. */
    public static String observersPath(String root) {
        return registryDirectory(root) + "/" + OBSERVERS;
    }

    /** What the node of an identity file remembers of others. */
    public static String knownPath(String path) {
        return path + ".known";
    }

    /** Where the next content of a key file is written. */
    public static String nextKeyPath(String path) {
        return path + ".new";
    }

    /** The lock of a file. No node has such a name. */
    public static String lockPath(String path) {
        int name = path.lastIndexOf('/') + 1;
        return path.substring(0, name) + "." + path.substring(name) + ".lock";
    }

    public static String temporary(String token) {
        return TEMPORARY_PREFIX + token;
    }

    // --- files of a lane: one file, one number, one spelling ---

    public static String laneFileName(int generation, long number) {
        return six(generation) + "-" + padded(number, 8) + ".lane";
    }

    public static String slotName(SlotId slot) {
        return six(slot.generation()) + "-" + padded(slot.number(), 2) + ".slot";
    }

    public static String cursorName(int generation) {
        return "cursor." + six(generation);
    }

    public static String startName(int generation) {
        return "start." + six(generation);
    }

    public static String deliveriesName(int generation) {
        return "deliveries." + six(generation);
    }

    public static String fenceName(int generation) {
        return six(generation) + ".fence";
    }

    public static String openingName(OpeningId opening) {
        return six(opening.generation()) + "-" + HexFormat.of().toHexDigits(opening.keyId()) + OPENING;
    }

    /** The bound link that a file of this name opens, null for anything else. */
    public static OpeningId parseOpening(String filename) {
        int dash = filename.indexOf('-');
        int generation = dash < 0 ? 0 : generation(filename.substring(0, dash));
        String digits = generation == 0 ? "" : filename.substring(dash + 1);
        return OPENED_KEY.matcher(digits).matches()
                ? new OpeningId(generation, HexFormat.fromHexDigitsToLong(digits, 0, 2 * Limits.KEY_ID_BYTES))
                : null;
    }

    /** The place that a lane file's name says, null for anything else. */
    public static LaneFile parseLaneFile(String filename) {
        int dash = filename.indexOf('-');
        if (dash < 0 || !filename.endsWith(".lane") || dash > filename.length() - 6) {
            return null;
        }
        int generation = generation(filename.substring(0, dash));
        long number = number(filename.substring(dash + 1, filename.length() - 5), 8, MAX_SEGMENT);
        return generation == 0 || number == 0 ? null : new LaneFile(generation, number);
    }

    /** The slot that a lane file's name says, null for anything else. */
    public static SlotId parseSlot(String filename) {
        int dash = filename.indexOf('-');
        if (dash < 0 || !filename.endsWith(".slot") || dash > filename.length() - 6) {
            return null;
        }
        int generation = generation(filename.substring(0, dash));
        int number = (int) number(filename.substring(dash + 1, filename.length() - 5), 2, Limits.MAX_SLOTS);
        return generation == 0 || number == 0 ? null : new SlotId(generation, number);
    }

    /** The generation of a cursor's file name, 0 for anything else. */
    public static int parseCursor(String filename) {
        return filename.startsWith("cursor.") ? generation(filename.substring(7)) : 0;
    }

    /** The generation of the file name of a receiver's first cursor, 0 for anything else. */
    public static int parseStart(String filename) {
        return filename.startsWith("start.") ? generation(filename.substring(6)) : 0;
    }

    /** The generation of the file name of deliveries, 0 for anything else. */
    public static int parseDeliveries(String filename) {
        return filename.startsWith("deliveries.") ? generation(filename.substring(11)) : 0;
    }

    /** The generation of a fence's file name, 0 for anything else. */
    public static int parseFence(String filename) {
        return filename.endsWith(".fence") ? generation(filename.substring(0, filename.length() - 6)) : 0;
    }

    private static int generation(String digits) {
        return (int) number(digits, 6, MAX_GENERATION);
    }

    /** The number that the digits write in the one accepted way, else 0. */
    private static long number(String digits, int width, long most) {
        if (!DIGITS.matcher(digits).matches()) {
            return 0;
        }
        long number = Long.parseLong(digits);
        return number <= most && padded(number, width).equals(digits) ? number : 0;
    }

    private static String six(int generation) {
        return padded(generation, 6);
    }

    private static String padded(long number, int width) {
        String digits = Long.toString(number);
        return "0".repeat(Math.max(0, width - digits.length())) + digits;
    }

    /** One opening of a bound link in a lane: of which generation of its sender, and the id of its key. */
    public record OpeningId(int generation, long keyId) {}

    /** One slot of a lane: of which generation of its sender, and which of its numbers from 1. */
    public record SlotId(int generation, int number) {}

    /**
     * Which file of a lane: files order as the lane does.
     *
     * @param generation of the sender, 0 before the first file
     * @param number within the generation
     */
    public record LaneFile(int generation, long number) implements Comparable<LaneFile> {
        public static final LaneFile NONE = new LaneFile(0, 0);

        @Override
        public int compareTo(LaneFile other) {
            int byGeneration = Integer.compare(generation, other.generation);
            return byGeneration != 0 ? byGeneration : Long.compare(number, other.number);
        }

        public boolean isBefore(LaneFile other) {
            return compareTo(other) < 0;
        }
    }
}
