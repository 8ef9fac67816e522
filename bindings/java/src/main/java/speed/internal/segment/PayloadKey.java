package speed.internal.segment;

import java.util.Arrays;

/**
 * Whose payload it is.
 *
 * @param sender authenticated name of the sender
 * @param kind type of its envelopes
 * @param hash of the payload
 */
public record PayloadKey(String sender, int kind, byte[] hash) {
    @Override
    public boolean equals(Object other) {
        return other instanceof PayloadKey key && sender.equals(key.sender) && kind == key.kind
                && Arrays.equals(hash, key.hash);
    }

    @Override
    public int hashCode() {
        return 31 * (31 * sender.hashCode() + kind) + Arrays.hashCode(hash);
    }

    @Override
    public String toString() {
        return "a payload of " + sender;
    }
}
