package speed.internal.engine;

/** The trace context of the work at hand: set around services and handlers, read by calls and sends. */
public final class Trace {
    private static final ThreadLocal<String> CURRENT = new ThreadLocal<>();

    private Trace() {}

    /** What the program gave, else that of the work at hand, else null. */
    public static String orCurrent(String given) {
        return given != null ? given : CURRENT.get();
    }

    /** Runs something under a trace context. */
    public static void under(String traceparent, Runnable work) {
        String before = CURRENT.get();
        CURRENT.set(traceparent);
        try {
            work.run();
        } finally {
            CURRENT.set(before);
        }
    }
}
