package speed.internal.fs;

import java.nio.file.Path;
import java.util.List;

/**
 * What makes all that was appended to a lane survive a power cut, on descriptors of its own: others may append
 * while it runs. Any thread may run it, once.
 */
public final class Flush {
    private final List<Integer> files;
    private final String lane;

    /** In the order of the files; without a lane no file was created. */
    Flush(List<Integer> files, String lane) {
        this.files = files;
        this.lane = lane;
    }

    /** Throws when the device refuses; the descriptors are released in any case. */
    public void run() throws PosixException {
        try {
            for (int file : files) {
                Posix.syncData(file);
            }
            if (lane != null) {
                Path place = Path.of(lane); // then inbox, node's directory, root: each holds the name of the one before
                for (int level = 0; level < 4; level++, place = place.getParent()) {
                    Directory.sync(place.toString());
                }
            }
        } finally {
            files.forEach(Posix::close);
        }
    }
}
