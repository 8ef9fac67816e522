package speed;

/** An exception whose own code fails when it is asked. */
public final class Speechless extends RuntimeException {
    private static final long serialVersionUID = 1L;

    @Override
    public String getMessage() {
        throw new AssertionError("no text");
    }

    @Override
    public Throwable getCause() {
        throw new StackOverflowError();
    }

    @Override
    public StackTraceElement[] getStackTrace() {
        throw new IllegalStateException("no trace");
    }

    @Override
    public String toString() {
        return getMessage();
    }
}
