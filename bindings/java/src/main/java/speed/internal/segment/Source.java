package speed.internal.segment;

import java.util.Objects;

/** Where a payload's bytes are read from: memory, or anything that gives any part of them. For one thread at a time. */
public interface Source {
    /**
     * How large the payload is.
     *
     * @return bytes
     */
    long size();

    /**
     * Copies a part of the payload.
     *
     * @param from where the part begins in the payload
     * @param into takes it
     * @param at where it begins there
     * @param count how many bytes; all of them lie in the payload
     */
    void read(long from, byte[] into, int at, int count);

    /**
     * A payload in memory.
     *
     * @param data not copied
     * @return reads from it
     */
    static Source of(byte[] data) {
        Objects.requireNonNull(data);
        return new Source() {
            @Override
            public long size() {
                return data.length;
            }

            @Override
            public void read(long from, byte[] into, int at, int count) {
                System.arraycopy(data, (int) from, into, at, count);
            }
        };
    }

    /**
     * The end of a payload.
     *
     * @param whole all of it
     * @param begin where its end begins
     * @return reads from there on
     */
    static Source tail(Source whole, long begin) {
        return new Source() {
            @Override
            public long size() {
                return whole.size() - begin;
            }

            @Override
            public void read(long from, byte[] into, int at, int count) {
                whole.read(begin + from, into, at, count);
            }
        };
    }

    /**
     * Some bytes with a payload behind them.
     *
     * @param front comes first
     * @param rest comes behind
     * @return reads from both
     */
    static Source joined(byte[] front, Source rest) {
        return new Source() {
            @Override
            public long size() {
                return front.length + rest.size();
            }

            @Override
            public void read(long from, byte[] into, int at, int count) {
                int first = (int) Math.max(0, Math.min(count, front.length - from));
                if (first > 0) {
                    System.arraycopy(front, (int) from, into, at, first);
                }
                if (count > first) {
                    rest.read(from + first - front.length, into, at + first, count - first);
                }
            }
        };
    }
}
