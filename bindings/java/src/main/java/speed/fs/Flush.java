package speed.fs;

/**
 * What makes all that was appended to a lane survive a power cut (L-7), on a descriptor of its own: others may append
 * while it runs. Any thread may run it, once.
 */
public final class Flush {
    private final int segment;
    private final String lane;
    private final String inbox;

    /** Without a segment there is no descriptor; without a lane no file was created. */
    Flush(int segment, String lane, String inbox) {
        this.segment = segment;
        this.lane = lane;
        this.inbox = inbox;
    }

    /** Throws when the device refuses; the segment's descriptor is released in any case. */
    public void run() throws PosixException {
        try {
            if (segment >= 0) {
                Posix.syncData(segment);
            }
            if (lane != null) {
                sync(lane);
                sync(inbox);
            }
        } finally {
            Posix.close(segment);
        }
    }

    private static void sync(String path) throws PosixException {
        try (Directory directory = Directory.open(path)) {
            directory.sync();
        }
    }
}
