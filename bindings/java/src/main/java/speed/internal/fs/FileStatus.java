package speed.internal.fs;

import java.nio.ByteBuffer;
import java.util.List;
import speed.internal.core.Trust;

/** What statx(2) says of a file; its layout is the same on every architecture. */
record FileStatus(int mode, int uid, int gid, long links, long inode, long size, long modifiedNanos) {
    private static final int TYPE = 0xF000;
    private static final int FIFO = 0x1000;
    private static final int DIRECTORY = 0x4000;
    private static final int REGULAR = 0x8000;
    private static final int LINK = 0xA000;

    static FileStatus of(ByteBuffer statx) {
        long modified = statx.getLong(112) * 1_000_000_000 + statx.getInt(120);
        return new FileStatus(statx.getShort(28) & 0xFFFF, statx.getInt(20), statx.getInt(24),
                statx.getInt(16) & 0xFFFFFFFFL, statx.getLong(32), statx.getLong(40), modified);
    }

    Trust.Step step(List<byte[]> accessLists) {
        return new Trust.Step(uid, gid, mode, accessLists);
    }

    /** Whether it is a directory of a group root. */
    boolean isShared() {
        return isDirectory() && Trust.isShared(mode);
    }

    boolean isRegular() {
        return (mode & TYPE) == REGULAR;
    }

    boolean isDirectory() {
        return (mode & TYPE) == DIRECTORY;
    }

    boolean isLink() {
        return (mode & TYPE) == LINK;
    }

    boolean isFifo() {
        return (mode & TYPE) == FIFO;
    }

    boolean has(int permission) {
        return (mode & permission) != 0;
    }
}
