package speed.internal.core;

import java.util.Map;
import speed.errors.AccessDeniedException;
import speed.errors.ApplicationException;
import speed.errors.CallException;
import speed.errors.CallTimeoutException;
import speed.errors.CallWithdrawnException;
import speed.errors.DeliveryException;
import speed.errors.Execution;
import speed.errors.ExecutionFailedException;
import speed.errors.HostAwayException;
import speed.errors.InboxFullException;
import speed.errors.InternalException;
import speed.errors.InvalidArgumentsException;
import speed.errors.InvalidNameException;
import speed.errors.NodeLeavingException;
import speed.errors.NodeLeftException;
import speed.errors.NotAcknowledgedException;
import speed.errors.PayloadTooLargeException;
import speed.errors.SegmentStoreException;
import speed.errors.SegmentsLostException;
import speed.errors.ServiceException;
import speed.errors.ServiceNotFoundException;
import speed.errors.SpeedException;
import speed.errors.StorageException;
import speed.errors.UnknownNodeException;
import speed.errors.UnserialisableException;
import speed.internal.wire.ServiceCode;

/** Makes exceptions of the errors that answer a call. */
public final class CallErrors {
    private CallErrors() {}

    /** The exception of a code as received; an unknown code reads as INTERNAL_ERROR. */
    public static CallException of(String code, String message, Map<String, Object> details) {
        String own = ServiceCode.own(code);
        if (own != null) {
            ApplicationException error = ServiceException.declared(new ApplicationException(own, message, details));
            error.about(Execution.RAN);
            return error;
        }
        CallException error = switch (code) {
            // generated from registry_spec/codes.json by scripts/generate
            case "SERVICE_NOT_FOUND" -> new ServiceNotFoundException(message, details);
            case "ACCESS_DENIED" -> new AccessDeniedException(message, details);
            case "INVALID_ARGUMENTS" -> new InvalidArgumentsException(message, details);
            case "EXECUTION_FAILED" -> new ExecutionFailedException(message, details);
            case "TIMEOUT" -> new CallTimeoutException(message, details);
            case "SEGMENTS_LOST" -> new SegmentsLostException(message, details);
            case "WITHDRAWN" -> new CallWithdrawnException(message, details);
            default -> new InternalException(message, details);
            // end of what is generated
        };
        error.about(executionOf(error));
        return error;
    }

    /** The code for statistics: what a service chose itself may tell what a caller sent. */
    public static String contractsCode(String travelled) {
        return ServiceCode.isContracts(travelled) ? travelled : "APPLICATION";
    }

    private static Execution executionOf(CallException error) {
        return switch (error.code()) {
            case "SERVICE_NOT_FOUND", "ACCESS_DENIED", "INVALID_ARGUMENTS", "SEGMENTS_LOST" -> Execution.NOT_BEGUN;
            case "EXECUTION_FAILED" -> Execution.RAN;
            default -> "queued".equals(error.details().get("phase")) ? Execution.NOT_BEGUN : Execution.MAY_HAVE_RUN;
        };
    }

    /** Makes exceptions of what another host says of a delivery there. */
    public static final class DeliveryErrors {
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
}
