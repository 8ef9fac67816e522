package speed.message;

/** A shared key: 32 random bytes stand beside it, so that each message has a wrapping key of its own. */
record SharedKey(byte[] secret) implements LoadedKey.Kem {
    @Override
    public byte[] publicBytes() {
        return new byte[0];
    }

    @Override
    public Encapsulated encapsulate() {
        return new Encapsulated(RandomBytes.of(Algorithm.DATA_KEY_BYTES), secret);
    }

    @Override
    public byte[] decapsulate(byte[] encapsulated) {
        return secret;
    }

    @Override
    public String toString() {
        return "SharedKey";
    }
}
