package speed.options;

/** What a node does with a message or event whose handler failed, or whose handling ended the process again and again. */
public enum OnError {
    /** It is kept, sealed, among the dead letters of the node, and the next one is handled. */
    DEAD_LETTER,
    /** It is handled again, after growing pauses and before what came later; after some times it is a dead letter. */
    RETRY,
    /** It is counted, logged and dropped. */
    DROP
}
