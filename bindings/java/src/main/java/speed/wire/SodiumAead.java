package speed.wire;

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
        long header = envelope.address + at;
        int result = Sodium.crypto_aead_chacha20poly1305_ietf_decrypt(into.address, 0, 0, header + Limits.AAD_BYTES,
                payloadBytes + Limits.TAG_BYTES, header, Limits.AAD_BYTES, header + Header.NONCE_AT, key.address);
        Reference.reachabilityFence(this);
        return result == 0;
    }
}
