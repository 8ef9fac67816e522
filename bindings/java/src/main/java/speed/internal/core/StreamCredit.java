package speed.internal.core;

import speed.internal.wire.StreamPart.Credit;

/** What the sender of items may send (S-29). Not locked itself. */
public final class StreamCredit {
    private long grantedItems;
    private long grantedBytes;
    private long sentItems;
    private long sentBytes;

    /** So much may be sent at first. */
    public StreamCredit(long items, long bytes) {
        grantedItems = items;
        grantedBytes = bytes;
    }

    /** What was granted in all; totals only grow, so that one that comes again changes nothing. */
    public void grant(Credit totals) {
        grantedItems = Math.max(grantedItems, totals.items());
        grantedBytes = Math.max(grantedBytes, totals.bytes());
    }

    /** Whether anything was granted yet. */
    public boolean hasBegun() {
        return grantedItems > 0;
    }

    /** Counts an item as sent; false, and nothing counted, without credit. One item may exceed the bytes. */
    public boolean send(long bytes) {
        if (sentItems >= grantedItems || sentBytes >= grantedBytes) {
            return false;
        }
        sentItems++;
        sentBytes += bytes;
        return true;
    }
}
