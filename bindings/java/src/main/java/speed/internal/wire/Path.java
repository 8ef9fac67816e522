package speed.internal.wire;

/** The way to a part of a value, spelled only when an error names it. */
record Path(Object whole, Object part, boolean indexed) {
    @Override
    public String toString() {
        return indexed ? whole + "[" + part + "]" : whole + "." + part;
    }
}
