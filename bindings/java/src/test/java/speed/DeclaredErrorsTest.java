package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import speed.errors.ApplicationException;
import speed.errors.Execution;
import speed.errors.ServiceException;

/** Errors of services as classes of the program's own. */
class DeclaredErrorsTest extends TwoNodes {
    static final class InsufficientFunds extends ServiceException {
        static final String CODE = "INSUFFICIENT_FUNDS";
        private static final long serialVersionUID = 1L;

        final transient BigDecimal balance;

        InsufficientFunds(BigDecimal balance) {
            super(CODE, "there is not enough money", Map.of("balance", balance));
            this.balance = balance;
        }

        InsufficientFunds(ApplicationException received) {
            super(received);
            balance = Value.as(received.details().get("balance"), BigDecimal.class);
        }
    }

    @Test
    void aCallerCatchesTheClassWithItsFields() {
        ServiceException.declare(InsufficientFunds.CODE, InsufficientFunds::new);
        billing.register("pay", request -> {
            throw new InsufficientFunds(new BigDecimal("12.50"));
        });
        InsufficientFunds caught = assertThrows(InsufficientFunds.class, () -> call("pay"));
        assertEquals(new BigDecimal("12.50"), caught.balance);
        assertEquals(Execution.RAN, caught.execution());
        assertEquals("billing", caught.node());
        ExecutionException failed = assertThrows(
                ExecutionException.class,
                () -> analytics.submit("billing", "pay", Map.of()).get(60, TimeUnit.SECONDS));
        assertInstanceOf(InsufficientFunds.class, failed.getCause());
    }

    @Test
    void oneWithOtherFieldsOrThatIsNotDeclaredStaysWhatItIs() {
        ServiceException.declare(InsufficientFunds.CODE, InsufficientFunds::new);
        for (String code : new String[] {InsufficientFunds.CODE, "SOLD_OUT"}) {
            billing.register(code, request -> {
                throw new ApplicationException(code, "none", Map.of("other", 1));
            });
            ApplicationException caught = assertThrows(ApplicationException.class, () -> call(code));
            assertEquals(ApplicationException.class, caught.getClass());
            assertEquals(code, caught.code());
        }
    }
}
