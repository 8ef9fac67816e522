package speed.internal.core;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import speed.internal.wire.Fault;
import speed.internal.wire.Printable;

/**
 * A log of the library: what others wrote forges none of its lines, and its calls throw nothing. No other class has a
 * logger. Thread-safe.
 */
public final class Log {
    private static final int MAX_VALUE_CHARACTERS = 4096;

    private final Logger logger;

    /** The log of this name. */
    public Log(String name) {
        logger = LoggerFactory.getLogger(name);
    }

    /** Writes a warning; values stand where the format has braces, a last throwable is written with its trace. */
    public void warn(String format, Object... values) {
        write(() -> logger.warn(format, shown(values)));
    }

    /** Writes an error likewise. */
    public void error(String format, Object... values) {
        write(() -> logger.error(format, shown(values)));
    }

    /** What writes it is the program's choice: where that fails it costs the line, never what the line is about. */
    private static void write(Runnable line) {
        try {
            line.run();
        } catch (Throwable lost) { // nowhere to say so
            return;
        }
    }

    private static Object[] shown(Object... values) {
        Object[] shown = new Object[values.length];
        for (int at = 0; at < values.length; at++) {
            shown[at] = values[at] instanceof Throwable failure ? LoggedFailure.of(failure) : shown(values[at]);
        }
        return shown;
    }

    private static Object shown(Object value) {
        return value instanceof Number ? value : Printable.text(String.valueOf(value), MAX_VALUE_CHARACTERS);
    }

    /** A throwable whose traces, kind and causes are those of another, and whose texts are harmless. */
    private static final class LoggedFailure extends Throwable {
        private static final long serialVersionUID = 1L;
        private static final int MAX_CAUSES = 16;

        private final String kind;

        private LoggedFailure(Throwable failure, int causes) {
            super(textOf(failure), causes == 0 ? null : cause(failure, causes - 1));
            kind = failure.getClass().getName();
            setStackTrace(trace(failure));
        }

        static LoggedFailure of(Throwable failure) {
            return new LoggedFailure(failure, MAX_CAUSES);
        }

        private static String textOf(Throwable failure) {
            String text = Fault.messageOf(failure);
            return text == null ? null : Printable.text(text, MAX_VALUE_CHARACTERS);
        }

        private static LoggedFailure cause(Throwable failure, int causes) {
            Throwable cause = Fault.causeOf(failure);
            return cause == null ? null : new LoggedFailure(cause, causes);
        }

        private static StackTraceElement[] trace(Throwable failure) {
            try {
                return failure.getStackTrace();
            } catch (Throwable hidden) { // the program's code, as its text is
                return new StackTraceElement[0];
            }
        }

        @Override
        public String toString() {
            return getMessage() == null ? kind : kind + ": " + getMessage();
        }
    }
}
