package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import speed.Request;
import speed.Response;
import speed.Speechless;
import speed.errors.CallTimeoutException;
import speed.errors.InvalidArgumentsException;
import speed.errors.ServiceExistsException;
import speed.errors.ServiceNotFoundException;
import speed.options.ServiceOptions;

/** S-3, S-8, A-5: whatever a service does, its caller gets an answer. */
class ServiceTableTest {
    private final ServiceTable services = new ServiceTable();

    private Response invoke(String service, String caller) {
        ServiceTable.Found found = services.find(service, caller);
        return found.refusal() != null
                ? found.refusal()
                : ServiceTable.invoke(
                        found::invoke, new Request(service, Map.of(), caller, "request-1", 0, null), failure -> {});
    }

    @Test
    void aResultOrAResponseIsTheAnswer() {
        services.register("result", request -> 42, ServiceOptions.DEFAULT);
        services.register(
                "response",
                request -> Response.error("INVALID_ARGUMENTS", "no", Map.of("a", 1)),
                ServiceOptions.DEFAULT);
        assertEquals(42, invoke("result", "analytics").result());
        assertEquals("INVALID_ARGUMENTS", invoke("response", "analytics").errorCode());
    }

    @Test
    void aServiceIsRegisteredOnceAndGoneWhenItIsUnregistered() {
        services.register("f", request -> 1, ServiceOptions.DEFAULT);
        assertThrows(ServiceExistsException.class, () -> services.register("f", request -> 2, ServiceOptions.DEFAULT));
        services.unregister("f");
        assertEquals("SERVICE_NOT_FOUND", invoke("f", "analytics").errorCode());
        assertThrows(ServiceNotFoundException.class, () -> services.unregister("f"));
    }

    @Test
    void aServiceMayNarrowWhoCallsIt() {
        services.register("f", request -> 1, ServiceOptions.DEFAULT.withAllow("billing", "etl.*"));
        assertEquals("ACCESS_DENIED", invoke("f", "analytics").errorCode());
        assertEquals(1, invoke("f", "etl.1").result());
        assertEquals(List.of(), services.names("analytics"));
        assertEquals(List.of("f"), services.names("billing"));
    }

    /** A nested time-out must not look like a time-out of this call. */
    @Test
    void whatAServiceThrowsIsAnErrorWithoutATrace() {
        services.register(
                "nested",
                request -> {
                    throw new CallTimeoutException("too late");
                },
                ServiceOptions.DEFAULT);
        services.register(
                "silent",
                request -> {
                    throw new StackOverflowError();
                },
                ServiceOptions.DEFAULT);
        services.register(
                "picky",
                request -> {
                    throw new InvalidArgumentsException("amount must be positive", Map.of("argument", "amount"));
                },
                ServiceOptions.DEFAULT);
        assertEquals("TIMEOUT", invoke("nested", "analytics").details().get("cause"));
        assertEquals("StackOverflowError", invoke("silent", "analytics").errorMessage());
        assertEquals(Map.of("argument", "amount"), invoke("picky", "analytics").details());
    }

    /** S-19: each code of the contract stays as it is. */
    @Test
    void aCodeOfTheContractIsNoCodeOfTheServices() {
        for (String code : List.of("INTERNAL_ERROR", "WITHDRAWN", "TIMEOUT")) {
            services.register(code, request -> Response.error(code, "no"), ServiceOptions.DEFAULT);
            assertEquals(code, invoke(code, "analytics").errorCode());
            assertEquals(code, CallErrors.contractsCode(code));
        }
        services.register("own", request -> Response.error("UNKNOWN_NODE", "no"), ServiceOptions.DEFAULT);
        assertEquals("app/UNKNOWN_NODE", invoke("own", "analytics").errorCode());
        assertEquals("APPLICATION", CallErrors.contractsCode("app/UNKNOWN_NODE"));
    }

    /** Whoever is told LEAVING or REPLACED of a call takes it that the call did not run here. */
    @Test
    void whatANodeSaysOfItselfIsNoAnswerOfAService() {
        for (String code : List.of("LEAVING", "REPLACED")) {
            services.register(code, request -> Response.error(code, "no"), ServiceOptions.DEFAULT);
            Response answer = invoke(code, "analytics");
            assertEquals("EXECUTION_FAILED", answer.errorCode());
            assertTrue(answer.errorMessage().contains("'" + code + "' cannot be used"), answer.errorMessage());
        }
    }

    @Test
    void aFailureThatFailsToSayWhyIsAnErrorOfItsKind() {
        services.register(
                "speechless",
                request -> {
                    throw new Speechless();
                },
                ServiceOptions.DEFAULT);
        Response answer = invoke("speechless", "analytics");
        assertEquals(List.of("EXECUTION_FAILED", "Speechless"), List.of(answer.errorCode(), answer.errorMessage()));
    }
}
