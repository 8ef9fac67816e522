package speed;

import speed.internal.spi.Engine;
import speed.internal.wire.Require;
import speed.message.MessageKey;

/** Reads sets of keys of messages from where a program keeps them. */
public final class KeySet {
    private KeySet() {}

    /**
     * The keys of one set, read now: one record as {@link MessageKey#toJson} writes it, or a list of them.
     *
     * <pre>{@code
     * MessageSecurity.NONE.withKeys(KeySet.read("file:///etc/speed/orders.json"))
     * }</pre>
     *
     * @param uri {@code file:///path}, a file of this user or root that nobody else may write and, with secrets in it,
     *     nobody else may read; or {@code env://NAME}, a variable of this process
     * @return the keys, at least one
     * @throws speed.errors.ConfigurationException for a URI of another kind
     * @throws speed.errors.KeyUnavailableException when there is no such file or variable
     * @throws speed.errors.KeyRefusedException for a file that others can reach or that is none, and for what is no set
     * @throws speed.errors.AlgorithmException for an algorithm that is weak, unknown, or not available here
     */
    public static MessageKey[] read(String uri) {
        return Engine.installed().readKeys(Require.value("uri", uri)).toArray(new MessageKey[0]);
    }
}
