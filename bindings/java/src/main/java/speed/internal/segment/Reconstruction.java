package speed.internal.segment;

import java.util.HashMap;
import java.util.Map;
import speed.internal.segment.Segment.PayloadKey;

/** One payload that is being put together: which of its slots are held. For one thread at a time. */
public final class Reconstruction {
    private final PayloadKey key;
    private final int dataCount;
    private final int parityCount;
    private final long begunMs;
    private final Map<Integer, Integer> sizes = new HashMap<>();
    private int segmentSize;
    private long buffered;
    private long touchedMs;

    /**
     * A payload of which nothing is held.
     *
     * @param key whose it is
     * @param dataCount its data segments
     * @param parityCount its parity segments
     * @param begunMs when its first segment came
     */
    public Reconstruction(PayloadKey key, int dataCount, int parityCount, long begunMs) {
        this.key = key;
        this.dataCount = dataCount;
        this.parityCount = parityCount;
        this.begunMs = begunMs;
        touchedMs = begunMs;
    }

    /**
     * Notes what lies in a slot.
     *
     * @param slot one that is free
     * @param size bytes in it
     * @param nowMs when it came
     */
    public void hold(int slot, int size, long nowMs) {
        if (slot != dataCount - 1) {
            segmentSize = size;
        }
        sizes.put(slot, size);
        buffered += size;
        touchedMs = Math.max(touchedMs, nowMs);
    }

    /** Whether it cannot be a segment of this payload. */
    boolean contradicts(Segment segment) {
        int size = segment.payload().length;
        if (segment.dataCount() != dataCount || segment.parityCount() != parityCount) {
            return true;
        }
        if (segment.isLastData()) {
            return segmentSize > 0 && size > segmentSize;
        }
        return segmentSize > 0 ? size != segmentSize : size < sizes.getOrDefault(dataCount - 1, 0);
    }

    boolean holds(int slot) {
        return sizes.containsKey(slot);
    }

    /**
     * Whether enough is held.
     *
     * @return true from as many segments on as there are data segments
     */
    public boolean isReady() {
        return sizes.size() >= dataCount;
    }

    /**
     * Whose payload it is.
     *
     * @return sender, type and hash
     */
    public PayloadKey key() {
        return key;
    }

    /**
     * Its data segments.
     *
     * @return from 1
     */
    public int dataCount() {
        return dataCount;
    }

    /**
     * Its parity segments.
     *
     * @return from 0
     */
    public int parityCount() {
        return parityCount;
    }

    /**
     * Bytes of every data segment but the last.
     *
     * @return 0 while only the last one is held
     */
    public int segmentSize() {
        return segmentSize;
    }

    /**
     * When its first segment came.
     *
     * @return as given
     */
    public long begunMs() {
        return begunMs;
    }

    long touchedMs() {
        return touchedMs;
    }

    long buffered() {
        return buffered;
    }
}
