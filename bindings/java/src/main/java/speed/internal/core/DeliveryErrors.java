package speed.internal.core;

import speed.errors.DeliveryException;
import speed.errors.HostAwayException;
import speed.errors.InboxFullException;
import speed.errors.InvalidNameException;
import speed.errors.NodeLeavingException;
import speed.errors.NodeLeftException;
import speed.errors.NotAcknowledgedException;
import speed.errors.PayloadTooLargeException;
import speed.errors.SegmentStoreException;
import speed.errors.SpeedException;
import speed.errors.StorageException;
import speed.errors.UnknownNodeException;
import speed.errors.UnserialisableException;

/** Makes exceptions of what another host says of a delivery there. */
public final class DeliveryErrors {
    private DeliveryErrors() {}

    /** The exception of a code; null for one that is not about a delivery. */
    public static SpeedException of(String code, String message) {
        return switch (code) {
            case "UNKNOWN_NODE" -> new UnknownNodeException(message);
            case "HOST_AWAY" -> new HostAwayException(message);
            case "NODE_LEFT" -> new NodeLeftException(message);
            case "LEAVING" -> new NodeLeavingException(message);
            case "INBOX_FULL" -> new InboxFullException(message);
            case "PAYLOAD_TOO_LARGE" -> new PayloadTooLargeException(message);
            case "UNSERIALISABLE" -> new UnserialisableException(message);
            case "NOT_ACKNOWLEDGED" -> new NotAcknowledgedException(message);
            case "STORAGE" -> new StorageException(message, 0);
            case "SEGMENT_STORE" -> new SegmentStoreException(message, false);
            case "DELIVERY" -> new DeliveryException(message);
            case "INVALID_NAME" -> new InvalidNameException(message);
            default -> null;
        };
    }
}
