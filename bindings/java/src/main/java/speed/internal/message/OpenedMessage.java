package speed.internal.message;

import speed.errors.WireException;
import speed.internal.wire.Content;
import speed.internal.wire.MessageView;

/**
 * A received message that passed the security of a node; all but its payload is as it was received.
 *
 * @param view as it came
 * @param plain its payload decrypted and decompressed, null where it was neither
 * @param signedBy the id of the key that signed it, or null
 * @param openedBy the id of the key that opened it, or null
 * @param containsPii whether it holds personal data: its publisher says so, or its schema
 */
public record OpenedMessage(MessageView view, byte[] plain, String signedBy, String openedBy, boolean containsPii) {
    /** A copy of the payload as the publisher had it. */
    public byte[] payloadBytes() {
        return plain == null ? view.payloadBytes() : plain.clone();
    }

    /**
     * The payload's value, decoded anew each time, as of {@link MessageView#payload}.
     *
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

    public OpenedMessage withPii() {
        return new OpenedMessage(view, plain, signedBy, openedBy, true);
    }

    @Override
    public String toString() {
        return "OpenedMessage";
    }
}
