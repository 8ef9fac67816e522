package speed.internal.fs;

/**
 * A name that is held to remove what is left of it: nobody starts under it meanwhile. NameTakenException if it is
 * alive or starting, or nobody can tell at once.
 */
final class Hold implements AutoCloseable {
    /** By far longer than sweeping takes: on another host, whoever waits so long takes the name. */
    private static final long LEASE = 600_000;

    private final String root;
    private final String name;
    private final Won won;

    Hold(Registry registry, String name) throws PosixException {
        this.root = registry.root();
        this.name = name;
        won = new Claiming(registry, name, 0, false).win(Claimant.sweeping(LEASE));
    }

    /** Whether the last life of the name was ephemeral. */
    boolean isEphemeral() {
        return won.claimant().ephemeral();
    }

    int generation() {
        return won.generation();
    }

    /** The highest number that was claimed before. */
    int former() {
        return won.former();
    }

    @Override
    public void close() {
        Claim.remove(root, name, won.generation());
    }
}
