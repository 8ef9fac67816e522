package speed.internal.core;

import speed.internal.wire.Limits;

/**
 * What the reader of a stream's items has granted, and what it gives when they were processed. For one thread at a time.
 */
public final class StreamWindow {
    /** Items, and bytes of their values. */
    public record Credit(long items, long bytes) {
        public static final Credit NONE = new Credit(0, 0);

        Credit plus(long moreItems, long moreBytes) {
            return new Credit(items + moreItems, bytes + moreBytes);
        }

        Credit atLeast(long leastItems, long leastBytes) {
            return new Credit(Math.max(items, leastItems), Math.max(bytes, leastBytes));
        }
    }

    /** What an envelope of items is to its reader. */
    public enum Arrived {
        NEXT,
        /** All of it had arrived: it is dropped. */
        AGAIN,
        OUT_OF_ORDER,
        BEYOND_CREDIT
    }

    private final Credit window;
    private Credit granted;
    private Credit arrived = Credit.NONE;
    private Credit processed = Credit.NONE;

    /** One that is not open has granted nothing yet. */
    public StreamWindow(Credit window, boolean isOpen) {
        this.window = window;
        granted = isOpen ? window : Credit.NONE;
    }

    /** The first credit, of one that had granted nothing. */
    public Credit open() {
        granted = window;
        return granted;
    }

    /** Judges an envelope with {@code items} of {@code bytes} together, before which {@code number} went. */
    public Arrived arrive(long number, long items, long bytes) {
        if (items > 0 && number + items <= arrived.items()) {
            return Arrived.AGAIN;
        }
        if (number != arrived.items()) {
            return Arrived.OUT_OF_ORDER;
        }
        if (items > 0 && (arrived.items() + items > granted.items() || arrived.bytes() >= granted.bytes())) {
            return Arrived.BEYOND_CREDIT;
        }
        arrived = arrived.plus(items, bytes);
        return Arrived.NEXT;
    }

    /** Counts what was processed; the totals to grant now if half of the window was, else null. */
    public Credit process(long items, long bytes) {
        processed = processed.plus(items, bytes);
        boolean isAmple = (granted.items() - processed.items()) * 2 > window.items()
                && (granted.bytes() - processed.bytes()) * 2 > window.bytes();
        if (isAmple) {
            return null;
        }
        granted = granted.atLeast(processed.items() + window.items(), processed.bytes() + window.bytes());
        return granted;
    }

    /** What the sender of items may send. For one thread at a time. */
    public static final class Sender {
        private Credit granted;
        private Credit sent = Credit.NONE;

        public Sender(Credit granted) {
            this.granted = granted;
        }

        /** All that was granted; totals only grow, so that a repeated one changes nothing. */
        public void grant(Credit total) {
            granted = granted.atLeast(total.items(), total.bytes());
        }

        /** Counts an item as sent; false, and nothing counted, without credit. */
        public boolean send(long bytes) {
            if (sent.items() >= granted.items() || sent.bytes() >= granted.bytes()) {
                return false;
            }
            sent = sent.plus(1, bytes);
            return true;
        }
    }

    /** Whether a report of progress is written: seldom enough to cost nothing. For one thread at a time. */
    public static final class ProgressRate {
        private double next;

        /** {@code total} is null where it is not known; {@code now} in seconds of a monotonic clock. */
        public boolean takes(double done, Double total, double now) {
            if (now < next && (total == null || total != done)) {
                return false;
            }
            next = now + Limits.PROGRESS_SECONDS;
            return true;
        }
    }
}
