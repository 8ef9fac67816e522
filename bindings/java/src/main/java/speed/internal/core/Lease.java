package speed.internal.core;

import speed.errors.ConfigurationException;
import speed.internal.wire.Entry;

/** Who holds a name: the verdict over another node's entry, and the owner's own lease. Times in ms. */
public final class Lease {
    /** What an observer knows about a tenure. */
    public enum Verdict {
        LIVE,
        STALE,
        /** Undecidable by clock or process: stale only when it stays unchanged for a whole lease. */
        WATCH
    }

    private final long lease;
    private volatile long renewed;
    private volatile boolean lost;

    /**
     * The lease of an owner.
     *
     * @param renewed monotonic time written into the installed entry
     */
    public Lease(long lease, long renewed) {
        this.lease = lease;
        this.renewed = renewed;
    }

    /**
     * The lease must exceed three heartbeats: one late heartbeat must not cost the name.
     *
     * @param late how long after a heartbeat another host may see it; it comes on top
     */
    public static void check(long lease, long heartbeat, long late) {
        if (heartbeat <= 0 || lease <= 3 * heartbeat) {
            throw new ConfigurationException("the lease (" + lease + " ms) must exceed three heartbeats (3 x "
                    + heartbeat + " ms): raise the lease or lower the heartbeat");
        }
        if (lease <= 3 * heartbeat + late) {
            throw new ConfigurationException("the lease (" + lease + " ms) must exceed three heartbeats (3 x "
                    + heartbeat + " ms) and the " + late + " ms after which other hosts may see them on this mount:"
                    + " raise the lease, or mount with a smaller actimeo");
        }
    }

    /**
     * Decides whether an entry still holds.
     *
     * <pre>
     * boot   process  heartbeat age      verdict
     * same   gone     any                STALE
     * same   any      more than a lease  STALE
     * same   any      0 to a lease       LIVE
     * same   any      in the future      WATCH, STALE after an unchanged lease
     * other  unknown  not comparable     WATCH, STALE after an unchanged lease
     * </pre>
     *
     * @param now monotonic time, read before the entry was: an owner that renewed in time is then always seen
     * @param gone whether its process is known to be gone
     * @param unchanged how long the observer itself has seen exactly this entry
     */
    public static Verdict judge(Entry entry, String observerBootId, long now, boolean gone, long unchanged) {
        String bootId = entry.process().bootId();
        if (!bootId.isEmpty() && bootId.equals(observerBootId)) {
            long age = now - entry.heartbeatMonotonicMs();
            if (gone || age > entry.lease()) {
                return Verdict.STALE;
            }
            if (age >= 0) {
                return Verdict.LIVE;
            }
        }
        return unchanged > entry.lease() ? Verdict.STALE : Verdict.WATCH;
    }

    /** Whether the lease is lost or has run out; running out is final. */
    public boolean mustStop(long now) {
        if (now - renewed > lease) {
            lost = true;
        }
        return lost;
    }

    /** Records a heartbeat by the time written into it. */
    public void renew(long written) {
        renewed = Math.max(renewed, written);
    }

    /** Another process holds a higher generation. */
    public void lose() {
        lost = true;
    }
}
