package speed.fs;

import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import speed.errors.KeyFileException;

/** The way to a key file: each step of it is one that no other user can change (W-14). */
final class KeyPath {
    private static final int MAX_LINKS = 40; // as many as Linux follows
    private static final int WRITABLE_BY_OTHERS = 022;
    private static final int STICKY = 01000;

    private final String path;
    private final Deque<String> way = new ArrayDeque<>();
    private String place = "";
    private int links;

    private KeyPath(String path) {
        this.path = path;
        putBefore(path.startsWith("/") ? path : Path.of("").toAbsolutePath() + "/" + path);
    }

    /** Where a path leads once its links are followed; KeyFileException for a step that others can change. */
    static String followed(String path) {
        KeyPath walk = new KeyPath(path);
        checkDirectory("/", walk.lookedAt("/"));
        while (!walk.way.isEmpty()) {
            walk.take(walk.way.removeFirst());
        }
        return walk.place.isEmpty() ? "/" : walk.place;
    }

    private void take(String name) {
        if (name.equals("..")) {
            place = place.substring(0, Math.max(0, place.lastIndexOf('/')));
        } else if (!name.isEmpty() && !name.equals(".")) {
            step(place + "/" + name);
        }
    }

    private void step(String step) {
        FileStatus status = lookedAt(step);
        if (status.isLink()) {
            follow(step);
            return;
        }
        if (status.isDirectory()) {
            checkDirectory(step, status);
        }
        place = step;
    }

    private FileStatus lookedAt(String step) {
        FileStatus status;
        try {
            status = Posix.status(Posix.AT_FDCWD, step);
        } catch (PosixException error) {
            throw KeyFiles.unreadable(path, error);
        }
        if (status.uid() != Posix.uid() && status.uid() != 0) {
            throw new KeyFileException(
                    step + " belongs to another user (uid " + status.uid() + "): use a key file of your own");
        }
        return status;
    }

    /** Others may make names in a sticky directory, but not change those of root and of this user. */
    private static void checkDirectory(String step, FileStatus status) {
        if (status.has(WRITABLE_BY_OTHERS) && !status.has(STICKY)) {
            throw new KeyFileException("others can write to " + step + ", and so replace what is below it: run "
                    + "`chmod go-w " + step + "`, or keep the key elsewhere");
        }
    }

    private void follow(String link) {
        if (++links > MAX_LINKS) {
            throw new KeyFileException(link + " is one of more than " + MAX_LINKS + " links: name the key file itself");
        }
        try {
            String target = Posix.readLink(link);
            putBefore(target);
            place = target.startsWith("/") ? "" : place;
        } catch (PosixException error) {
            throw KeyFiles.unreadable(path, error);
        }
    }

    private void putBefore(String names) {
        List<String> steps = Arrays.asList(names.split("/"));
        Collections.reverse(steps);
        steps.forEach(way::addFirst);
    }
}
