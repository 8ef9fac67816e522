package speed.message;

import java.util.List;
import speed.errors.ConfigurationException;
import speed.errors.NotClearedException;
import speed.errors.NotEncryptedException;
import speed.internal.message.Shown;

/** Who may see what: absent is internal, a text of a later version counts as the highest. */
final class Sensitivity {
    private static final List<String> LEVELS = List.of("public", "internal", "confidential", "restricted");
    private static final int INTERNAL = LEVELS.indexOf("internal");
    private static final int ENCRYPTED_FROM = LEVELS.indexOf("confidential");

    private Sensitivity() {}

    /** Returns a level, or null; ConfigurationException for another text. */
    static String checkLevel(String level, String what) {
        if (level != null && !LEVELS.contains(level)) {
            throw new ConfigurationException(
                    what + " is '" + Shown.text(level) + "'; use one of " + String.join(", ", LEVELS));
        }
        return level;
    }

    /** Both sides ask this. */
    static void checkEncrypted(String classification, boolean isEncrypted) {
        if (rank(classification) >= ENCRYPTED_FROM && !isEncrypted) {
            throw new NotEncryptedException("data_classification: a " + LEVELS.get(rank(classification))
                    + " message must be encrypted: say to whom");
        }
    }

    /** Null is cleared for all. */
    static void checkClearance(String classification, String clearance) {
        if (clearance != null && rank(classification) > rank(clearance)) {
            throw new NotClearedException("data_classification: is " + LEVELS.get(rank(classification))
                    + ", and this node is cleared for " + clearance);
        }
    }

    /** Whether it is of the highest class: who is handed it is written down. */
    static boolean isRestricted(String classification) {
        return rank(classification) == LEVELS.size() - 1;
    }

    private static int rank(String classification) {
        if (classification == null || classification.isEmpty()) {
            return INTERNAL;
        }
        return LEVELS.contains(classification) ? LEVELS.indexOf(classification) : LEVELS.size() - 1;
    }
}
