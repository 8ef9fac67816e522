package speed.internal.wire;

import java.util.Collection;

/**
 * What a name is judged by (I-7).
 *
 * @param grants fingerprints that grants name
 * @param known what is remembered; null for nothing
 * @param statement what an owner states; null for nothing
 * @param hasOwners whether owners say who a node is
 * @param now Unix seconds
 */
public record Evidence(
        Collection<String> grants, KnownIdentity known, Statement statement, boolean hasOwners, long now) {
    /**
     * What a node remembers of a name.
     *
     * @param fingerprint its identity
     * @param issued when the newest statement of it was made, in Unix seconds
     * @param isRevoked whether that revoked it
     */
    public record KnownIdentity(String fingerprint, long issued, boolean isRevoked) {}

    /** What becomes of a name: all but the first two refuse it. */
    public enum Verdict {
        ACCEPTED,
        /** Accepted, and to be remembered. */
        FIRST,
        CHANGED,
        REVOKED,
        EXPIRED,
        UNVOUCHED,
        /** An identity is due, and there is none. */
        MISSING
    }

    /** Judges a fingerprint; an empty one is that of a name without an identity. */
    public Verdict judge(String fingerprint) {
        if (fingerprint.isEmpty()) {
            return grants.isEmpty() && known == null && statement == null ? Verdict.ACCEPTED : Verdict.MISSING;
        }
        if (isRevoked(fingerprint)) {
            return Verdict.REVOKED;
        }
        if (!grants.isEmpty()) {
            return grants.contains(fingerprint) ? Verdict.ACCEPTED : Verdict.CHANGED;
        }
        if (hasOwners) {
            return byStatement(fingerprint);
        }
        if (known == null) {
            return Verdict.FIRST;
        }
        return known.fingerprint().equals(fingerprint) ? Verdict.ACCEPTED : Verdict.CHANGED;
    }

    /**
     * What is to be remembered with a verdict, null for nothing: a statement may be removed, or an older one put back.
     *
     * @param fingerprint what was judged
     */
    public KnownIdentity learnt(String fingerprint, Verdict verdict) {
        Statement stated = current();
        if (stated != null) {
            return new KnownIdentity(stated.fingerprint(), stated.issued(), stated.kind() == Statement.REVOKED);
        }
        boolean isMet = verdict == Verdict.FIRST || verdict == Verdict.ACCEPTED && known == null;
        return isMet && !fingerprint.isEmpty() ? new KnownIdentity(fingerprint, 0, false) : null;
    }

    /** The statement, unless a newer one was seen before: an old one may have been put back. */
    private Statement current() {
        boolean isOld = statement != null && known != null && statement.issued() < known.issued();
        return isOld ? null : statement;
    }

    private boolean isRevoked(String fingerprint) {
        Statement stated = current();
        if (stated != null) {
            return stated.kind() == Statement.REVOKED && stated.fingerprint().equals(fingerprint);
        }
        return known != null && known.isRevoked() && known.fingerprint().equals(fingerprint);
    }

    private Verdict byStatement(String fingerprint) {
        Statement stated = current();
        if (stated == null || stated.kind() == Statement.REVOKED) {
            return Verdict.UNVOUCHED;
        }
        if (!stated.fingerprint().equals(fingerprint)) {
            return Verdict.CHANGED;
        }
        return stated.until() != 0 && now >= stated.until() ? Verdict.EXPIRED : Verdict.ACCEPTED;
    }
}
