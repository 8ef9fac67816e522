package speed.internal.access;

/**
 * How inner packages make an object whose class has no public constructor, since programs could call that too. The class
 * installs its factory as it is loaded. Thread-safe.
 *
 * @param <F> the factory
 */
public final class InternalFactory<F> {
    private final String owner;
    private volatile F installed;

    /** Of the class of this name. */
    public InternalFactory(String owner) {
        this.owner = owner;
    }

    /** Once, by its class. */
    public synchronized void install(F factory) {
        if (installed != null) {
            throw new IllegalStateException(owner + " has installed its factory already");
        }
        installed = factory;
    }

    /** Loads the class, if nothing else did yet. */
    public F get() {
        if (installed == null) {
            load();
        }
        return installed;
    }

    private void load() {
        try {
            Class.forName(owner, true, InternalFactory.class.getClassLoader());
        } catch (ClassNotFoundException missing) {
            throw new IllegalStateException(missing);
        }
    }
}
