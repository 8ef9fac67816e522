package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.Map;
import org.junit.jupiter.api.Test;
import speed.columns.Column;
import speed.columns.Kind;
import speed.errors.ExecutionFailedException;
import speed.errors.InvalidArgumentsException;

/** C-6, C-7: services that are called with columns. */
class BatchTest {
    private final Service twice = Service.byRow(request -> {
        if (request.arguments().get("a") == null) {
            return null;
        }
        double a = request.get("a", Double.class);
        if (a < 0) {
            throw new IllegalStateException("negative");
        }
        return 2 * a;
    });

    private static Request request(Map<String, Object> arguments) {
        return new Request("twice", arguments, "etl", "1.1", 0, null);
    }

    @Test
    void aServiceOfRowsAnswersABatchWithAColumnAndASingleCallAsBefore() throws Exception {
        Column column = Column.of(Kind.FLOAT64, Arrays.asList(1.5, null));
        Column doubled = (Column) twice.invoke(request(Map.of("a", column)));
        assertEquals(Arrays.asList(3.0, null), doubled.values());
        assertEquals(8.0, twice.invoke(request(Map.of("a", 4.0))));
    }

    @Test
    void theFirstBadRowIsNamed() {
        Request request = request(Map.of("a", Column.of(1.0, -1.0, -2.0)));
        ExecutionFailedException error = assertThrows(ExecutionFailedException.class, () -> twice.invoke(request));
        assertEquals("row 1: java.lang.IllegalStateException: negative", error.getMessage());
        assertEquals(1L, error.details().get("row"));
    }

    @Test
    void columnsOfDifferentLengthsAreRefused() {
        Request request = request(Map.of("a", Column.of(1.0), "b", Column.of(1.0, 2.0)));
        assertThrows(InvalidArgumentsException.class, request::columns);
    }
}
