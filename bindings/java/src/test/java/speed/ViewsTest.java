package speed;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import speed.errors.InvalidArgumentsException;
import speed.options.ServiceOptions;

/** Large bytes as views: of arguments where a service asks for them, of results where a caller does. */
class ViewsTest extends TwoNodes {
    private final byte[] large = random(1 << 20);

    private static byte[] random(int size) {
        byte[] bytes = new byte[size];
        new Random(size).nextBytes(bytes);
        return bytes;
    }

    private Object echo(Object data) {
        return analytics.call("billing", "echo", Map.of("data", data), Node.CALL_TIMEOUT, null, true);
    }

    @Test
    void aServiceThatAsksForViewsGetsLargeBytesAsAReadOnlyBuffer() {
        billing.register(
                "sum",
                request -> {
                    ByteBuffer data = request.get("data", ByteBuffer.class);
                    assertThrows(ReadOnlyBufferException.class, () -> data.put(0, (byte) 0));
                    assertInstanceOf(ByteBuffer.class, request.arguments().get("data"));
                    return data.remaining();
                },
                ServiceOptions.DEFAULT.withViews());
        assertEquals((long) large.length, analytics.call("billing", "sum", Map.of("data", large)));
    }

    @Test
    void aServiceThatDoesNotAskGetsAnArray() {
        billing.register(
                "echo",
                request -> assertInstanceOf(byte[].class, request.arguments().get("data")));
        assertArrayEquals(large, (byte[]) analytics.call("billing", "echo", Map.of("data", large)));
    }

    @Test
    void aViewThatWasReceivedCanBeTheResult() {
        billing.register("echo", request -> request.arguments().get("data"), ServiceOptions.DEFAULT.withViews());
        assertEquals(ByteBuffer.wrap(large), echo(large));
    }

    @Test
    void aCallForABufferGetsAViewOfTheResult() {
        billing.register("echo", request -> request.arguments().get("data"));
        ByteBuffer view = analytics.call("billing", "echo", Map.of("data", large), ByteBuffer.class);
        assertTrue(view.isReadOnly());
        assertEquals(ByteBuffer.wrap(large), view);
    }

    @Test
    void viewsLieAsDeepInAResultAsTheirBytes() {
        billing.register(
                "echo", request -> Map.of("parts", List.of(request.arguments().get("data"))));
        Object parts = ((Map<?, ?>) echo(large)).get("parts");
        assertEquals(List.of(ByteBuffer.wrap(large)), parts);
    }

    @Test
    void smallBytesAreCopiedAndFitABufferAllTheSame() {
        byte[] small = random(100);
        billing.register(
                "echo",
                request -> {
                    assertInstanceOf(byte[].class, request.arguments().get("data"));
                    return request.get("data", ByteBuffer.class);
                },
                ServiceOptions.DEFAULT.withViews());
        assertArrayEquals(small, (byte[]) echo(small));
    }

    @Test
    void aViewIsTakenAsAnArrayByACopy() {
        billing.register("echo", request -> request.get("data", byte[].class), ServiceOptions.DEFAULT.withViews());
        assertArrayEquals(large, analytics.call("billing", "echo", Map.of("data", large), byte[].class));
    }

    @Test
    void whatIsNoBytesIsNoBuffer() {
        billing.register("echo", request -> request.get("data", ByteBuffer.class), ServiceOptions.DEFAULT.withViews());
        InvalidArgumentsException refused = assertThrows(InvalidArgumentsException.class, () -> echo("text"));
        assertTrue(refused.getMessage().contains("must be ByteBuffer, not String"), refused.getMessage());
    }

    @Test
    void ofABufferTheRestIsSentAndItsPositionStays() {
        billing.register("echo", request -> request.arguments().get("data"));
        ByteBuffer rest = ByteBuffer.allocateDirect(8)
                .put(new byte[] {1, 2, 3, 4, 5, 6, 7, 8})
                .position(3);
        assertArrayEquals(new byte[] {4, 5, 6, 7, 8}, (byte[]) echo(rest));
        assertEquals(3, rest.position());
    }
}
