package speed.internal.fs;

import java.util.EnumSet;
import speed.internal.core.LaneProgress.Position;
import speed.internal.core.LaneProgress.Token;
import speed.internal.wire.Header;
import speed.internal.wire.Header.EnvelopeType;

/**
 * Which envelopes a dead process may have handled already. Messages and events of one sender are handled one
 * at a time: of those that lay in the lane, only the first of each type can be repeated. Lane files do not count: all of
 * them are marked.
 */
final class DuplicateSuspects {
    private Position until = Position.START;
    private boolean all;
    private boolean unknown;
    private boolean listUnknown;
    private boolean isOwn;
    private final EnumSet<EnvelopeType> seen = EnumSet.noneOf(EnvelopeType.class);

    /** The former process did not close its cursor: what lies before the lane's present end is suspect. */
    void suspect(Position laneEnd) {
        until = laneEnd;
    }

    /** This process opened the lane before: no request for its generation was begun by any other. */
    void areOwn() {
        isOwn = true;
    }

    boolean isOwnListUncertain() {
        return isOwn && listUnknown;
    }

    /** Any number of messages may have been handled. */
    void suspectAll() {
        all = true;
    }

    /** Nothing is known about how far the former process came, not even which requests it began. */
    void knowNothing() {
        all = true;
        unknown = true;
        listUnknown = true;
    }

    /** The same of what lies behind those that its cursor lists. */
    void knowNothingPastTheList() {
        all = true;
        unknown = true;
    }

    /** Whether nothing is known of those either that the cursor lists. */
    boolean isListUncertain() {
        return listUnknown;
    }

    boolean suspectsAll() {
        return all;
    }

    /** Whether it lay in the lane when nothing was known about how far this process had come. */
    boolean isUncertain(Token token) {
        return isOwn && unknown && liesBefore(token);
    }

    private boolean liesBefore(Token token) {
        return new Position(token.file, token.start).compareTo(until) < 0;
    }

    boolean mayBeRepeated(Header header, Token token) {
        if (!liesBefore(token)) {
            return false;
        }
        EnvelopeType type = header.type();
        boolean inOrder = type == EnvelopeType.MESSAGE || type == EnvelopeType.EVENT;
        return all || !inOrder || header.has(EnvelopeType.SEGMENT) || seen.add(type);
    }
}
