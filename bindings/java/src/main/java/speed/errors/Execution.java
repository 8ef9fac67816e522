package speed.errors;

/** Whether the service of a call that failed has run. */
public enum Execution {
    /** It has not, and never will: the call may be repeated. */
    NOT_BEGUN,
    /** Nobody can tell: look before the call is repeated. */
    MAY_HAVE_RUN,
    /** It has, and failed. */
    RAN
}
