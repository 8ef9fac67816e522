package speed.internal.fs;

import java.io.Closeable;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import speed.errors.RootException;
import speed.errors.SegmentStoreException;
import speed.internal.fs.SegmentIndex.KeptPayload;
import speed.internal.fs.SegmentIndex.SegmentPlace;
import speed.internal.fs.StoredShards.ShardFile;
import speed.internal.segment.Reconstruction;
import speed.internal.segment.Segment;
import speed.internal.segment.Segment.PayloadKey;
import speed.internal.wire.Block;
import speed.internal.wire.Keyring;
import speed.internal.wire.Names;

/**
 * The segments that a node received and not yet put together: sealed, beside an index. The segments of one
 * payload lie one after the other in a file, in sealed blocks that can be read each for itself. Not thread-safe;
 * {@link StoredShards} are for one thread each. Every method may throw SegmentStoreException.
 */
public final class SegmentStore implements Closeable {
    /** Payloads that are held and not complete; others that are complete, and since when in Unix ms. */
    public record Content(List<KeptPayload> kept, Map<PayloadKey, Long> completions) {}

    private static final int MAX_FILES = 1 << 16;

    private final String root;
    private final String name;
    private final Supplier<Keyring> keyring;
    private final boolean durable;
    private Directory directory;
    private SegmentIndex index;
    private Block written;
    private int putAside;
    private boolean closed;

    public SegmentStore(String root, String name, Supplier<Keyring> keyring, boolean durable) {
        this.root = root;
        this.name = name;
        this.keyring = keyring;
        this.durable = durable;
    }

    /** Whether a process of this name left something. */
    public boolean exists() {
        return Files.isDirectory(Path.of(Names.segmentsDirectory(root, name)), LinkOption.NOFOLLOW_LINKS);
    }

    /** How many stores could not be used and were begun anew. */
    public int putAside() {
        return putAside;
    }

    /** What the store has; files that belong to nothing are removed. */
    public Content load() {
        Content content;
        try {
            content = new Content(index().payloads(), index().completions());
        } catch (SegmentStoreException failure) {
            if (!failure.isDamaged()) {
                throw failure;
            }
            startAnew();
            return new Content(List.of(), Map.of());
        }
        removeFiles(content.kept.stream()
                .map(one -> Names.shardsName(index.idOf(one.key())))
                .collect(Collectors.toSet()));
        return content;
    }

    /** Keeps a segment of a payload that began at {@code begunMs}; both times are Unix ms. */
    public void put(Reconstruction one, long begunMs, Segment segment, long atMs) {
        byte[] payloadId = index().idOf(one.key());
        try {
            int file = directory.openOwn(Names.shardsName(payloadId));
            try {
                long offset = Posix.status(file).size();
                SegmentPlace place = new SegmentPlace(segment.slot(), segment.payload().length, offset, atMs);
                new ShardFile(file, index.aeadOf(payloadId), written())
                        .write(place, 0, segment.payload(), place.size());
                if (durable) {
                    Posix.syncData(file);
                    Directory.sync(Names.segmentsDirectory(root, name));
                }
                index.add(one, begunMs, place);
            } finally {
                Posix.close(file);
            }
        } catch (PosixException error) {
            throw new SegmentStoreException("a segment cannot be kept: " + error.getMessage(), false);
        }
    }

    /** What is kept of one payload, for reading; to be closed. */
    public StoredShards shards(PayloadKey key) {
        KeptPayload kept = index().payload(key);
        if (kept == null) {
            throw new SegmentStoreException("segments that were kept are not there any more", false);
        }
        byte[] payloadId = index.idOf(key);
        try {
            return new StoredShards(directory.openOwn(Names.shardsName(payloadId)), index.aeadOf(payloadId), kept);
        } catch (PosixException error) {
            throw new SegmentStoreException("segments cannot be read: " + error.getMessage(), false);
        }
    }

    /** Forgets payloads that are not complete. */
    public void remove(Collection<PayloadKey> keys) {
        for (PayloadKey key : keys) {
            index().remove(key);
            directory.removeQuietly(Names.shardsName(index.idOf(key)));
        }
    }

    /** Notes a delivery at a Unix time in ms, and forgets older ones. */
    public void complete(PayloadKey key, long atMs, List<PayloadKey> forgotten) {
        index().complete(key, atMs, forgotten);
        directory.removeQuietly(Names.shardsName(index.idOf(key)));
    }

    /** Forgets deliveries. */
    public void forget(List<PayloadKey> keys) {
        if (!keys.isEmpty()) {
            index().forget(keys);
        }
    }

    /** Puts a damaged store aside, in the place of one put aside before. */
    public void startAnew() {
        release();
        putAside++;
        openDirectory();
        try {
            directory.rename(Names.SEGMENT_INDEX, directory, Names.SEGMENT_INDEX + ".damaged");
        } catch (PosixException error) {
            directory.removeQuietly(Names.SEGMENT_INDEX);
        }
        for (String suffix : List.of("-wal", "-shm", "-journal")) {
            directory.removeQuietly(Names.SEGMENT_INDEX + suffix);
        }
        removeFiles(Set.of());
    }

    private SegmentIndex index() {
        if (closed) {
            throw new SegmentStoreException("the segment store was closed with its node", false);
        }
        if (index == null) {
            try {
                index = open();
            } catch (SegmentStoreException failure) {
                if (!failure.isDamaged()) {
                    throw failure;
                }
                startAnew();
                index = open();
            }
        }
        return index;
    }

    private SegmentIndex open() {
        openDirectory();
        try {
            Posix.close(directory.openOwn(Names.SEGMENT_INDEX)); // made private, and no link is followed
        } catch (PosixException error) {
            throw new SegmentStoreException("the segment store cannot be opened: " + error.getMessage(), false);
        }
        return new SegmentIndex(Names.segmentIndexPath(root, name), name, keyring.get(), durable);
    }

    /** Native memory is given back late: one block serves all segments. */
    private Block written() {
        if (written == null) {
            written = new Block(ShardFile.WRITE_BYTES);
        }
        return written;
    }

    private void openDirectory() {
        if (directory == null) {
            try {
                String path = Names.segmentsDirectory(root, name);
                Directory.make(path);
                if (durable) {
                    Directory.sync(Names.nodeDirectory(root, name));
                }
                directory = Directory.open(path);
            } catch (PosixException | RootException error) {
                throw new SegmentStoreException("the segment store cannot be opened: " + error.getMessage(), false);
            }
        }
    }

    private void removeFiles(Set<String> except) {
        try {
            for (Directory.Name one : directory.names(MAX_FILES)) {
                if (Names.isShards(one.name()) && !except.contains(one.name())) {
                    directory.removeQuietly(one.name());
                }
            }
        } catch (PosixException error) {
            throw new SegmentStoreException("the segment store cannot be read: " + error.getMessage(), false);
        }
    }

    /** Releases all files for good: what ends late must not write for a successor of this name. */
    @Override
    public void close() {
        closed = true;
        release();
    }

    private void release() {
        if (index != null) {
            index.close();
        }
        if (directory != null) {
            directory.close();
        }
        index = null;
        directory = null;
    }
}
