package speed.message;

import java.util.ArrayList;
import java.util.List;
import speed.errors.ConfigurationException;
import speed.errors.NotClearedException;
import speed.errors.NotEncryptedException;
import speed.internal.message.Compression.Shown;

/**
 * What a node does to its messages, and what it believes of others'. Immutable.
 *
 * @param keys opens what is encrypted to them
 * @param policy what is asked of signatures
 * @param trusted keys whose signatures are believed; each names its publishers ({@link KeyBounds#withPublishers})
 * @param defaults for messages whose options say nothing
 * @param publisherTeam written into each message that is protected, or null
 * @param clearance the highest classification that is received, or null for all
 * @param fipsMode which algorithms are allowed
 * @param futureToleranceMs how far ahead of this clock a publisher's may be, with a policy other than off
 * @param schemas those of payloads, or null for none
 * @param audit is told what is done with keys, and who is handed what is sensitive; null for nobody
 */
public record MessageSecurity(
        List<MessageKey> keys,
        SignaturePolicy policy,
        List<MessageKey> trusted,
        Protection defaults,
        String publisherTeam,
        String clearance,
        FipsMode fipsMode,
        long futureToleranceMs,
        Schemas schemas,
        AuditLog audit) {
    /** Does nothing, believes nothing, opens what no key is needed for. */
    public static final MessageSecurity NONE = new MessageSecurity(
            List.of(),
            SignaturePolicy.OFF,
            List.of(),
            Protection.NONE,
            null,
            null,
            FipsMode.OFF,
            Algorithm.FUTURE_TOLERANCE_MS,
            null,
            null);

    /**
     * Checks what belongs together.
     *
     * @param keys opens what is encrypted to them
     * @param policy what is asked of signatures
     * @param trusted keys whose signatures are believed
     * @param defaults for messages whose options say nothing
     * @param publisherTeam written into each message that is protected, or null
     * @param clearance the highest classification that is received, or null for all
     * @param fipsMode which algorithms are allowed
     * @param futureToleranceMs how far ahead of this clock a publisher's may be
     * @param schemas those of payloads, or null for none
     * @param audit is told what is done with keys, and who is handed what is sensitive; null for nobody
     * @throws ConfigurationException for a policy without trusted keys, or a clearance that is none
     */
    public MessageSecurity {
        keys = List.copyOf(keys);
        trusted = List.copyOf(trusted);
        Sensitivity.checkLevel(clearance, "clearance");
        if (policy != SignaturePolicy.OFF && trusted.isEmpty()) {
            throw new ConfigurationException("policy " + policy + " needs trusted keys: those of publishers");
        }
    }

    /**
     * Opens messages that are encrypted to some keys as well.
     *
     * @param more secret or shared keys
     * @return such settings
     */
    public MessageSecurity withKeys(MessageKey... more) {
        List<MessageKey> all = new ArrayList<>(keys);
        all.addAll(List.of(more));
        return new MessageSecurity(
                all, policy, trusted, defaults, publisherTeam, clearance, fipsMode, futureToleranceMs, schemas, audit);
    }

    /**
     * Looks at signatures.
     *
     * @param newPolicy what is asked of them
     * @param publishers keys that are believed
     * @return such settings
     * @throws ConfigurationException for a policy other than off without keys
     */
    public MessageSecurity withPolicy(SignaturePolicy newPolicy, MessageKey... publishers) {
        return new MessageSecurity(
                keys,
                newPolicy,
                List.of(publishers),
                defaults,
                publisherTeam,
                clearance,
                fipsMode,
                futureToleranceMs,
                schemas,
                audit);
    }

    /**
     * Protects messages whose options say nothing.
     *
     * @param usual what is done to them
     * @return such settings
     */
    public MessageSecurity withDefaults(Protection usual) {
        return new MessageSecurity(
                keys, policy, trusted, usual, publisherTeam, clearance, fipsMode, futureToleranceMs, schemas, audit);
    }

    /**
     * Names the publisher's team in what is sent.
     *
     * @param team any text
     * @return such settings
     */
    public MessageSecurity withPublisherTeam(String team) {
        return new MessageSecurity(
                keys, policy, trusted, defaults, team, clearance, fipsMode, futureToleranceMs, schemas, audit);
    }

    /**
     * Refuses messages that are classified higher.
     *
     * @param level {@code public}, {@code internal}, {@code confidential} or {@code restricted}
     * @return such settings
     * @throws ConfigurationException for another text
     */
    public MessageSecurity withClearance(String level) {
        return new MessageSecurity(
                keys, policy, trusted, defaults, publisherTeam, level, fipsMode, futureToleranceMs, schemas, audit);
    }

    /**
     * Restricts algorithms.
     *
     * @param mode which are allowed
     * @return such settings
     */
    public MessageSecurity withFipsMode(FipsMode mode) {
        return new MessageSecurity(
                keys, policy, trusted, defaults, publisherTeam, clearance, mode, futureToleranceMs, schemas, audit);
    }

    /**
     * Holds payloads to schemas: what is received under a name and version that they have, and what is sent with such a
     * reference ({@link SchemaReference}); hash, deprecated fields and the mark of personal data come from them then.
     *
     * @param known where they are found
     * @return such settings
     */
    public MessageSecurity withSchemas(Schemas known) {
        return new MessageSecurity(
                keys, policy, trusted, defaults, publisherTeam, clearance, fipsMode, futureToleranceMs, known, audit);
    }

    /**
     * Tells what is done with keys, what is refused, and who is handed what is sensitive. What cannot be told is not
     * done: nothing is sent, and what was received waits.
     *
     * @param log is told; the program closes it, after its nodes
     * @return such settings
     */
    public MessageSecurity withAudit(AuditLog log) {
        return new MessageSecurity(
                keys, policy, trusted, defaults, publisherTeam, clearance, fipsMode, futureToleranceMs, schemas, log);
    }

    /** Who may see what: absent is internal, a text of a later version counts as the highest. */
    static final class Sensitivity {
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
}
