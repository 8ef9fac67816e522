package speed.internal.wire;

import java.lang.ref.Reference;

/** libsodium on native memory; thread-safe. */
final class SodiumAead implements Aead {
    private final Block key;

    SodiumAead(byte[] key) {
        this.key = Block.of(key);
    }

    @Override
    public void seal(Block envelope, int at, int payloadBytes) {
        envelope.check(at, Limits.AAD_BYTES + payloadBytes + Limits.TAG_BYTES);
        long header = envelope.address + at;
        long payload = header + Limits.AAD_BYTES;
        Sodium.crypto_aead_chacha20poly1305_ietf_encrypt(payload, 0, payload, payloadBytes, header,
                Limits.AAD_BYTES, 0, header + Header.NONCE_AT, key.address);
        Reference.reachabilityFence(this);
    }

    @Override
    public boolean open(Block envelope, int at, int payloadBytes, Block into) {
        envelope.check(at, Limits.AAD_BYTES + payloadBytes + Limits.TAG_BYTES);
        into.check(0, payloadBytes); // which libsodium fills with zeros where the tag is wrong
        return decrypted(into.address, envelope.address + at, payloadBytes);
    }

    /** Twice over the bytes: only where no byte is to be written does libsodium leave them alone when the tag is wrong. */
    @Override
    public boolean openInPlace(Block envelope, int at, int payloadBytes) {
        envelope.check(at, Limits.AAD_BYTES + payloadBytes + Limits.TAG_BYTES);
        return decrypted(0, envelope.address + at, payloadBytes)
                && decrypted(envelope.address + at + Limits.AAD_BYTES, envelope.address + at, payloadBytes);
    }

    private boolean decrypted(long into, long header, int payloadBytes) {
        int result = Sodium.crypto_aead_chacha20poly1305_ietf_decrypt(into, 0, 0, header + Limits.AAD_BYTES,
                payloadBytes + Limits.TAG_BYTES, header, Limits.AAD_BYTES, header + Header.NONCE_AT, key.address);
        Reference.reachabilityFence(this);
        return result == 0;
    }
}
