package speed.internal.fs;

import speed.internal.core.LaneProgress.Token;
import speed.internal.wire.Header;

/**
 * One authentic envelope; the token finishes it.
 *
 * @param redelivered whether a former process may have handled it
 * @param uncertain whether it is marked because nothing is known about how far that process came
 */
public record Received(Header header, byte[] payload, boolean redelivered, boolean uncertain, Token token) {
    /** The same envelope, as if it had carried another payload. */
    public Received with(byte[] other) {
        return new Received(header, other, redelivered, uncertain, token);
    }
}
