package speed.core;

import speed.Response;
import speed.wire.ServiceCode;

/** Codes of errors that a service answers with: the contract's, and its own, which travel with a prefix. */
final class ServiceCodes {
    private ServiceCodes() {}

    /** What a service answered, with its code as it travels; EXECUTION_FAILED for a code that no service may give. */
    static Response travelling(Response answer) {
        String code = answer.errorCode();
        if (code == null || ServiceCode.isContracts(code)) {
            return answer;
        }
        if (ServiceCode.isOwn(code)) {
            return new Response(null, ServiceCode.travelling(code), answer.errorMessage(), answer.details());
        }
        return Response.error("EXECUTION_FAILED", ServiceCode.refused(code));
    }
}
