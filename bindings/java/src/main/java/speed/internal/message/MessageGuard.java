package speed.internal.message;

import speed.internal.access.InternalFactory;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.MessageView;

/**
 * Applies the security settings of a node to what it sends and receives. {@code speed.message} implements it, since only
 * that package reads the secrets of keys; programs cannot name it here. Thread-safe.
 *
 * @param <P> the protection of a message
 * @param <S> the reference of a schema
 */
public interface MessageGuard<P, S> {
    InternalFactory<Factory<?, ?, ?>> FACTORY = new InternalFactory<>("speed.message.Guard");

    /** Makes the guard of a node from a {@code MessageSecurity} and the node's name. */
    @FunctionalInterface
    interface Factory<M, P, S> {
        MessageGuard<P, S> guard(M security, String node);
    }

    /**
     * The guard of one node.
     *
     * @param security a {@code MessageSecurity}
     * @param node its name, for an audit; empty for none
     */
    @SuppressWarnings("unchecked") // one factory is installed, and it is for these types
    static <M, P, S> MessageGuard<P, S> of(M security, String node) {
        return ((Factory<M, P, S>) FACTORY.get()).guard(security, node);
    }

    /**
     * The bytes of one message, compressed, encrypted, then signed.
     *
     * @param requested what is to be done to it; the node's defaults hold where it says nothing
     * @throws speed.errors.MessageException for keys, algorithms, classification and payloads that cannot be
     * @throws speed.errors.StorageException when its audit cannot be written
     */
    byte[] write(MessageDraft draft, Object payload, P requested, S schema);

    /** Whether more is done to a message than to frame it: then it must be written in memory. */
    boolean protects(P requested, S schema);

    /**
     * A received message, checked in such an order that nothing is decrypted for who is not trusted.
     *
     * @param nowMs Unix ms of this node's clock
     * @param source the node that sent it, for an audit; empty where no node did
     * @throws speed.errors.MessageException when it is refused
     * @throws speed.errors.WireException when its time is ahead of this clock
     * @throws speed.errors.StorageException when its audit cannot be written: it is to be judged later
     * @throws java.io.UncheckedIOException when its schema cannot be reached: it is to be judged later
     */
    OpenedMessage open(MessageView received, long nowMs, String source);

    /** The same message, for a node that verifies and decrypts nothing; MessageException for what each node refuses. */
    OpenedMessage unopened(MessageView view);
}
