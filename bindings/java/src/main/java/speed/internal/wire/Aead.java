package speed.internal.wire;

/**
 * ChaCha20-Poly1305 (RFC 8439) under one key, applied to whole envelopes: the 88 header bytes, nonce
 * included, are the associated data. libsodium where it can be loaded, else the JDK: the same bytes, slower.
 */
interface Aead {
    /** Seals in place: headers and payload stand at {@code at}, 16 bytes of room follow them. */
    void seal(Block envelope, int at, int payloadBytes);

    /** Opens an envelope into the beginning of another block; false if one bit differs from what was sealed. */
    boolean open(Block envelope, int at, int payloadBytes, Block into);

    /**
     * Opens an envelope in place: its payload stands where its ciphertext stood. Where one bit differs nothing is changed.
     */
    boolean openInPlace(Block envelope, int at, int payloadBytes);
}
