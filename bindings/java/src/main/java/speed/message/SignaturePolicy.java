package speed.message;

/** What a node asks of signatures. */
public enum SignaturePolicy {
    /** Looks at none. */
    OFF,
    /** Refuses one that does not hold, accepts messages without one. */
    VERIFY,
    /** Refuses messages without one as well. */
    REQUIRE
}
