package speed.internal.fs;

import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import speed.internal.core.Counters;
import speed.internal.core.LaneDecoder;
import speed.internal.core.LaneProgress;
import speed.internal.core.LaneProgress.Token;
import speed.internal.fs.LaneFiles.LaneCounts;
import speed.internal.wire.Cursor;

/** What a former process had begun and not finished, as its cursor lists it: handed out first, marked. */
final class Redelivery {
    private record Again(Cursor.Unfinished entry, Token token) {}

    private final LaneFiles files;
    private final LaneDecoder decoder;
    private final ReadBuffer buffer;
    private final LaneCounts counts;
    private final LaneProgress progress;
    private final Queue<Again> waiting = new ArrayDeque<>();
    private boolean uncertain;

    Redelivery(LaneFiles files, LaneDecoder decoder, ReadBuffer buffer, LaneCounts counts, LaneProgress progress) {
        this.files = files;
        this.decoder = decoder;
        this.buffer = buffer;
        this.counts = counts;
        this.progress = progress;
    }

    /** Takes over what a cursor lists; whether nothing is known about how far its process came. */
    void add(List<Cursor.Unfinished> unfinished, boolean isUncertain) {
        uncertain = isUncertain;
        unfinished.forEach(entry -> waiting.add(new Again(entry, progress.redispatched(entry))));
    }

    boolean isEmpty() {
        return waiting.isEmpty();
    }

    /** The next one, which then stands at the beginning of the buffer; null if it is lost. */
    Received next() throws PosixException {
        Again next = waiting.remove();
        LaneDecoder.Opened found = envelopeAt(next.entry);
        if (found == null || found.header().sequence() != next.entry.sequence()) {
            progress.finish(next.token);
            counts.count(Counters.REDELIVERIES_LOST);
            return null;
        }
        progress.foundAgain(next.token, found.end());
        return new Received(found.header(), found.payload(), true, uncertain, next.token);
    }

    /** The envelope that begins at a listed place, null if it is not there any more. */
    private LaneDecoder.Opened envelopeAt(Cursor.Unfinished entry) throws PosixException {
        int file;
        try {
            file = files.openFile(entry.file());
        } catch (PosixException error) {
            if (error.saysGone()) {
                return null;
            }
            throw error;
        }
        try {
            LaneDecoder.Scan scanned = scan(file, entry, ReadBuffer.CHUNK_BYTES);
            if (scanned.items().isEmpty() && scanned.needed() > ReadBuffer.CHUNK_BYTES) {
                scanned = scan(file, entry, scanned.needed());
            }
            boolean found = !scanned.items().isEmpty() && scanned.items().get(0) instanceof LaneDecoder.Opened;
            return found ? (LaneDecoder.Opened) scanned.items().get(0) : null;
        } finally {
            Posix.close(file);
        }
    }

    private LaneDecoder.Scan scan(int file, Cursor.Unfinished entry, int wanted) throws PosixException {
        int length = buffer.fill(file, entry.offset(), wanted);
        return decoder.scan(
                new LaneDecoder.Window(
                        buffer.data(), length, entry.offset(), entry.file().generation(), false, false),
                1);
    }
}
