package speed.examples;

import java.util.Map;
import speed.Node;
import speed.Request;
import speed.Response;
import speed.Service;
import speed.errors.ServiceNotFoundException;
import speed.options.SendOptions;
import speed.options.ServiceOptions;

/**
 * The examples of the RFC as one program: a tax service that is registered, called and written to. Root and key come
 * from {@code $SPEED_ROOT} and {@code $SPEED_KEY}. The same in Python and C++: {@code examples/rfc.py} and
 * {@code bindings/cpp/examples/rfc.cpp}.
 */
public final class Rfc {
    private Rfc() {}

    private static final class TaxService implements Service {
        @Override
        public Response invoke(Request request) {
            double amount = request.get("amount", Double.class);
            return Response.of(Map.of("tax", amount * 0.18));
        }
    }

    /**
     * Prints the tax, the message as it arrives, and the code of a call that fails.
     *
     * @param arguments none
     */
    public static void main(String[] arguments) {
        try (Node billing = Node.builder("billing").open();
                Node analytics = Node.builder("analytics").open()) {
            billing.register("calculateTax", new TaxService(), ServiceOptions.DEFAULT.withAllow("analytics"));
            billing.onMessage(message -> System.out.println(message.source() + " " + message.payload()));
            billing.allow("analytics");

            Map<?, ?> answer = (Map<?, ?>) analytics.call("billing", "calculateTax", Map.of("amount", 1000));
            System.out.println("tax " + answer.get("tax"));
            analytics.send("billing", "hello", SendOptions.DEFAULT.withAcknowledgement());
            try {
                analytics.call("billing", "generateInvoice", Map.of());
            } catch (ServiceNotFoundException error) {
                System.out.println(error.code());
            }
        }
    }
}
