package speed.internal.fs;

import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import speed.internal.core.Trust;
import speed.internal.fs.Posix.FileStatus;

/** The way to a root or a key file: each step of it is one that no other user can change. */
final class TrustedPath {
    private static final int MAX_LINKS = 40; // as many as Linux follows
    private static final int SETGID = 02000;

    private final Deque<String> names = new ArrayDeque<>();
    private final Trust.Who me = Posix.who();
    private String place = "";
    private int links;

    private TrustedPath(String path) {
        putBefore(path.startsWith("/") ? path : Path.of("").toAbsolutePath() + "/" + path);
    }

    /**
     * Where a path leads once its links are followed. The last step is judged by its owner alone: whoever asks knows
     * what it should be.
     *
     * @throws UntrustedException for a step that others can change
     */
    static String followed(String path) throws UntrustedException, PosixException {
        TrustedPath walk = new TrustedPath(path);
        walk.check("/", Posix.status(Posix.AT_FDCWD, "/"), false);
        while (!walk.names.isEmpty()) {
            walk.take(walk.names.removeFirst());
        }
        return walk.place.isEmpty() ? "/" : walk.place;
    }

    private void take(String name) throws UntrustedException, PosixException {
        if (name.equals("..")) {
            place = place.substring(0, Math.max(0, place.lastIndexOf('/')));
        } else if (!name.isEmpty() && !name.equals(".")) {
            step(place + "/" + name);
        }
    }

    private void step(String step) throws UntrustedException, PosixException {
        FileStatus status = Posix.status(Posix.AT_FDCWD, step);
        check(step, status, names.isEmpty());
        if (status.isLink()) {
            follow(step);
        } else {
            place = step;
        }
    }

    private void check(String step, FileStatus status, boolean isLast) throws UntrustedException {
        Trust trust = Trust.ofStep(status.step(List.of()), me);
        if (trust == Trust.OWNER) {
            throw new UntrustedException(step + " belongs to another user (uid " + status.uid() + ")");
        }
        if (trust == Trust.WRITABLE && !isLast) {
            String cure = "run `chmod " + (status.has(SETGID) ? "+t " : "go-w ") + step + "`";
            throw new UntrustedException("others can write to " + step + ", and so replace what is below it", cure);
        }
    }

    private void follow(String link) throws UntrustedException, PosixException {
        if (++links > MAX_LINKS) {
            throw new UntrustedException(link + " is one of more than " + MAX_LINKS + " links");
        }
        String target = Posix.readLink(link);
        putBefore(target);
        place = target.startsWith("/") ? "" : place;
    }

    private void putBefore(String path) {
        List<String> steps = Arrays.asList(path.split("/"));
        Collections.reverse(steps);
        steps.forEach(names::addFirst);
    }

    /** What was found on the way to a root or a key file, and the command that mends it, if one does. */
    static final class UntrustedException extends Exception {
        private static final long serialVersionUID = 1L;

        private final String cure;

        UntrustedException(String found, String cure) {
            super(found);
            this.cure = cure;
        }

        UntrustedException(String found) {
            this(found, "");
        }

        /** What was found and what to do: the cure, or else something other. */
        String advice(String otherwise) {
            return getMessage() + ": " + (cure.isEmpty() ? "" : cure + ", or ") + otherwise;
        }
    }
}
