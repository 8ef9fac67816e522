package speed.message;

/** Which algorithms are allowed. It restricts; whether a module is validated cannot be known from a program. */
public enum FipsMode {
    /** All of the contract. */
    OFF,
    /** What the first draft's table lists, which is all of the contract. */
    RFC,
    /** What NIST approves. */
    STRICT
}
