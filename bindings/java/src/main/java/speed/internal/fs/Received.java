package speed.internal.fs;

import speed.internal.core.LaneProgress.Token;
import speed.internal.wire.Header;

/**
 * One authentic envelope; the token finishes it.
 *
 * @param redelivered whether a former process may have handled it
 * @param uncertain whether it is marked because nothing is known about how far that process came
 * @param identity fingerprint of the identity that sealed it; empty where the link is bound by none
 */
public record Received(
        Header header, byte[] payload, boolean redelivered, boolean uncertain, Token token, String identity) {
    /** One that no identity sealed, as far as is known. */
    public Received(Header header, byte[] payload, boolean redelivered, boolean uncertain, Token token) {
        this(header, payload, redelivered, uncertain, token, "");
    }

    /** The same envelope, as if it had carried another payload. */
    public Received with(byte[] other) {
        return new Received(header, other, redelivered, uncertain, token, identity);
    }

    /** The same envelope, of an identity. */
    Received of(String fingerprint) {
        return new Received(header, payload, redelivered, uncertain, token, fingerprint);
    }
}
