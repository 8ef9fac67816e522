package speed.internal.core;

import speed.internal.wire.StreamPart.Credit;

/** What the reader of items has granted, and what it gives when they were processed (S-29, S-33). Not locked itself. */
public final class StreamWindow {
    /** What an envelope of items is to its reader. */
    public enum Arrived {
        NEXT,
        /** All of it had arrived: it is dropped. */
        AGAIN,
        OUT_OF_ORDER,
        BEYOND_CREDIT
    }

    private final long items;
    private final long bytes;
    private long grantedItems;
    private long grantedBytes;
    private long arrivedItems;
    private long arrivedBytes;
    private long processedItems;
    private long processedBytes;

    private StreamWindow(long items, long bytes) {
        this.items = items;
        this.bytes = bytes;
    }

    /** One that has granted nothing yet. */
    public static StreamWindow closed(long items, long bytes) {
        return new StreamWindow(items, bytes);
    }

    /** One whose first credit went with the request. */
    public static StreamWindow opened(long items, long bytes) {
        StreamWindow window = new StreamWindow(items, bytes);
        window.open();
        return window;
    }

    /** Gives the first credit. */
    public Credit open() {
        grantedItems = items;
        grantedBytes = bytes;
        return new Credit(items, bytes);
    }

    /** Judges an envelope of so many items and bytes, before which {@code number} items went. */
    public Arrived arrive(long number, long moreItems, long moreBytes) {
        if (moreItems > 0 && number + moreItems <= arrivedItems) {
            return Arrived.AGAIN;
        }
        if (number != arrivedItems) {
            return Arrived.OUT_OF_ORDER;
        }
        if (moreItems > 0 && (arrivedItems + moreItems > grantedItems || arrivedBytes >= grantedBytes)) {
            return Arrived.BEYOND_CREDIT;
        }
        arrivedItems += moreItems;
        arrivedBytes += moreBytes;
        return Arrived.NEXT;
    }

    /** Counts what was processed; the totals to grant now if half of the window was, else null. */
    public Credit process(long doneItems, long doneBytes) {
        processedItems += doneItems;
        processedBytes += doneBytes;
        if ((grantedItems - processedItems) > items / 2 && (grantedBytes - processedBytes) > bytes / 2) {
            return null;
        }
        grantedItems = Math.max(grantedItems, processedItems + items);
        grantedBytes = Math.max(grantedBytes, processedBytes + bytes);
        return new Credit(grantedItems, grantedBytes);
    }
}
