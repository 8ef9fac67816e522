package speed.internal.wire;

/** How the value of a field of a message is read; what is inside of those that are messages. */
record Field(Kind kind, Shape inside) {
    static final Field UNKNOWN = new Field(Kind.UNKNOWN, null);
    static final Field TEXT = new Field(Kind.TEXT, null);
    static final Field BYTES = new Field(Kind.BYTES, null);
    static final Field NUMBER = new Field(Kind.NUMBER, null);
    static final Field TEXTS = new Field(Kind.TEXTS, null);
    static final Field TEXT_MAP = new Field(Kind.TEXT_MAP, number -> ofEntry(number, TEXT));
    static final Field BYTES_MAP = new Field(Kind.BYTES_MAP, number -> ofEntry(number, BYTES));

    /** What a message holds under each number. */
    @FunctionalInterface
    interface Shape {
        Field field(int number);
    }

    /** Kinds of values. */
    enum Kind {
        UNKNOWN,
        TEXT,
        BYTES,
        NUMBER,
        MESSAGE,
        TEXTS,
        MESSAGES,
        TEXT_MAP,
        BYTES_MAP
    }

    static Field message(Shape inside) {
        return new Field(Kind.MESSAGE, inside);
    }

    static Field messages(Shape inside) {
        return new Field(Kind.MESSAGES, inside);
    }

    /** Protobuf itself numbers what an entry of a map holds. */
    private static Field ofEntry(int number, Field value) {
        return switch (number) {
            case 1 -> TEXT;
            case 2 -> value;
            default -> UNKNOWN;
        };
    }
}
