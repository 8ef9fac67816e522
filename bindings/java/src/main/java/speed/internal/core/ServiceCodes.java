package speed.internal.core;

import speed.Response;
import speed.internal.wire.ServiceCode;

/** Codes of errors that a service answers with: the contract's, and its own, which travel with a prefix. */
final class ServiceCodes {
    /** What a node says of itself: its callers act on it, and no program sees it. */
    private static final String NODES_OWN = "REPLACED";

    private ServiceCodes() {}

    /** What a service answered, with its code as it travels; EXECUTION_FAILED for a code that no service may give. */
    static Response travelling(Response answer) {
        String code = answer.errorCode();
        if (code == null || ServiceCode.isContracts(code) && !code.equals(NODES_OWN)) {
            return answer;
        }
        if (ServiceCode.isOwn(code)) {
            return new Response(null, ServiceCode.travelling(code), answer.errorMessage(), answer.details());
        }
        return Response.error("EXECUTION_FAILED", ServiceCode.refused(code));
    }
}
