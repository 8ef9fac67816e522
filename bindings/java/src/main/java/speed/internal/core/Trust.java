package speed.internal.core;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Set;

/** Whether only root and this user can change a directory, or a group that was asked for as well. */
public enum Trust {
    TRUSTED,
    /** A root of several users: the members of its group can do all that its owner can. */
    GROUP,
    /** It is another user's. */
    OWNER,
    WRITABLE,
    /** An access list lets others write. */
    LISTED,
    /** A root of a group of which this process is no member. */
    STRANGER;

    private static final int TYPE = 0170000;
    private static final int DIRECTORY = 0040000;
    private static final int SETGID = 02000;
    private static final int STICKY = 01000;
    private static final int GROUP_WRITES = 020;
    private static final int OTHERS_WRITE = 002;
    private static final int LIST_VERSION = 2;
    private static final int ENTRY_BYTES = 8;
    private static final int NAMED_USER = 0x02;
    private static final int NAMED_GROUP = 0x08;
    private static final int MAY_WRITE = 0x02;

    /**
     * What is on the way.
     *
     * @param mode as in st_mode
     * @param lists the access lists that a root has
     */
    public record Step(int owner, int group, int mode, List<byte[]> lists) {}

    /** Effective user and all groups of a process. */
    public record Who(int user, Set<Integer> groups) {
        boolean trusts(int other) {
            return other == 0 || other == user;
        }
    }

    /** Whether it may be used. */
    public boolean isGiven() {
        return this == TRUSTED || this == GROUP;
    }

    /** Whether a directory is one of a group root: what is made in it is the group's as well. */
    public static boolean isShared(int mode) {
        return (mode & SETGID) != 0 && (mode & GROUP_WRITES) != 0;
    }

    /** Of a directory, link or file on the way. In a sticky directory others cannot change what is not theirs. */
    public static Trust ofStep(Step step, Who who) {
        if (!who.trusts(step.owner)) {
            return OWNER;
        }
        boolean isOpen = (step.mode & (GROUP_WRITES | OTHERS_WRITE)) != 0 && (step.mode & STICKY) == 0;
        return (step.mode & TYPE) == DIRECTORY && isOpen ? WRITABLE : TRUSTED;
    }

    /** Of a root, or of a directory inside a group root: there each member may have made it. */
    public static Trust ofRoot(Step step, Who who, boolean inside) {
        boolean shared = isShared(step.mode);
        if (!inside && !who.trusts(step.owner)) {
            return OWNER;
        }
        if ((step.mode & OTHERS_WRITE) != 0 || (step.mode & GROUP_WRITES) != 0 && !shared) {
            return WRITABLE;
        }
        if (shared && who.user != 0 && !who.groups.contains(step.group)) {
            return STRANGER;
        }
        if (step.lists.stream().anyMatch(list -> namesWriter(list, who))) {
            return LISTED;
        }
        return shared ? GROUP : TRUSTED;
    }

    /** Whether another user or group may write by a POSIX access list, as the kernel shows it; also if it is none. */
    private static boolean namesWriter(byte[] list, Who who) {
        ByteBuffer rows = ByteBuffer.wrap(list).order(ByteOrder.LITTLE_ENDIAN);
        if (list.length % ENTRY_BYTES != Integer.BYTES || rows.getInt() != LIST_VERSION) {
            return true;
        }
        while (rows.hasRemaining()) {
            int tag = rows.getShort();
            int rights = rows.getShort();
            int user = rows.getInt();
            boolean foreign = tag == NAMED_GROUP || tag == NAMED_USER && !who.trusts(user);
            if (foreign && (rights & MAY_WRITE) != 0) {
                return true;
            }
        }
        return false;
    }
}
