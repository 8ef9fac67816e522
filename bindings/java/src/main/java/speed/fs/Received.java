package speed.fs;

import speed.core.Token;
import speed.wire.Header;

/** One authentic envelope; the token finishes it. */
public record Received(Header header, byte[] payload, boolean redelivered, Token token) {}
