package speed.message;

import java.util.Arrays;
import speed.internal.wire.SodiumArrays;

/** Ed25519 (RFC 8032), by libsodium. The secret is null where only the public part is known. */
record SodiumEd25519Key(byte[] expanded, byte[] publicBytes) implements LoadedKey.Signer {
    static SodiumEd25519Key ofSecret(byte[] seed) {
        byte[] expanded = SodiumArrays.expanded(seed);
        return new SodiumEd25519Key(expanded, Arrays.copyOfRange(expanded, seed.length, expanded.length));
    }

    static SodiumEd25519Key ofPublic(byte[] raw) {
        return new SodiumEd25519Key(null, raw);
    }

    @Override
    public byte[] sign(byte[] covered) {
        return SodiumArrays.sign(covered, expanded);
    }

    @Override
    public boolean holds(byte[] signature, byte[] covered) {
        return signature.length == Algorithm.ED25519.outputBytes
                && SodiumArrays.verify(signature, covered, publicBytes);
    }

    @Override
    public String toString() {
        return "SodiumEd25519Key";
    }
}
