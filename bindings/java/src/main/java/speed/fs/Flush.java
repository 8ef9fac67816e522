package speed.fs;

import java.nio.file.Path;

/**
 * What makes all that was appended to a lane survive a power cut, on a descriptor of its own: others may append
 * while it runs. Any thread may run it, once.
 */
public final class Flush {
    private final int segment;
    private final String lane;

    /** Without a segment there is no descriptor; without a lane no file was created. */
    Flush(int segment, String lane) {
        this.segment = segment;
        this.lane = lane;
    }

    /** Throws when the device refuses; the segment's descriptor is released in any case. */
    public void run() throws PosixException {
        try {
            if (segment >= 0) {
                Posix.syncData(segment);
            }
            if (lane != null) {
                Path place = Path.of(lane); // then inbox, node's directory, root: each holds the name of the one before
                for (int level = 0; level < 4; level++, place = place.getParent()) {
                    Directory.sync(place.toString());
                }
            }
        } finally {
            Posix.close(segment);
        }
    }
}
