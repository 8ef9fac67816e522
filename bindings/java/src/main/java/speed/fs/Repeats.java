package speed.fs;

import java.util.EnumSet;
import speed.core.Position;
import speed.core.Token;
import speed.wire.EnvelopeType;

/**
 * Which envelopes a dead process may have handled already (L-15). Messages and events of one sender are handled one
 * at a time: of those that lay in the lane, only the first of each type can be repeated.
 */
final class Repeats {
    private Position until = Position.START;
    private boolean all;
    private final EnumSet<EnvelopeType> seen = EnumSet.noneOf(EnvelopeType.class);

    /** The former process did not close its cursor: what lies before the lane's present end is suspect. */
    void suspect(Position laneEnd) {
        until = laneEnd;
    }

    /** Nothing is known about how far the former process came. */
    void suspectAll() {
        all = true;
    }

    boolean suspectsAll() {
        return all;
    }

    boolean mayBeRepeated(EnvelopeType type, Token token) {
        if (new Position(token.segment, token.start).compareTo(until) >= 0) {
            return false;
        }
        boolean inOrder = type == EnvelopeType.MESSAGE || type == EnvelopeType.EVENT;
        return all || !inOrder || seen.add(type);
    }
}
