package speed.message;

import speed.errors.WireException;
import speed.internal.message.Compression;
import speed.internal.wire.Content;
import speed.internal.wire.MessageView;

/**
 * A received message that passed a node's {@link MessageSecurity}; all but its payload is as it was received.
 *
 * @param view as it came
 * @param plain its payload decrypted and decompressed, null where it was neither
 * @param signer the key that signed it, or null
 * @param opener the key that opened it, or null
 * @param containsPii whether it holds personal data: its publisher says so, or its schema
 */
@SuppressWarnings("exports") // some methods are for the node alone
public record OpenedMessage(MessageView view, byte[] plain, MessageKey signer, MessageKey opener, boolean containsPii) {
    /**
     * The payload as the publisher had it.
     *
     * @return a copy
     */
    public byte[] payloadBytes() {
        return plain == null ? view.payloadBytes() : plain.clone();
    }

    /**
     * The payload's value, decoded anew each time.
     *
     * @return as of {@link MessageView#payload}
     * @throws WireException when it is not what its type says, or in an encoding that is not read here
     */
    public Object payload() {
        String encoding = view.contentEncoding();
        if (plain == null) {
            return view.payload();
        }
        if (!encoding.equals(Compression.NONE) && !Compression.isRead(encoding)) {
            throw new WireException("BAD_MESSAGE", "content_encoding: is " + encoding + "; read the payload's bytes");
        }
        return Content.decode(view.contentType(), view.typeUrl(), plain, 0, plain.length);
    }

    OpenedMessage withPii() {
        return new OpenedMessage(view, plain, signer, opener, true);
    }

    @Override
    public String toString() {
        return "OpenedMessage";
    }
}
