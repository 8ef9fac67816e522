package speed.tool;

import java.time.Duration;
import java.util.List;
import java.util.Map;

/** One operation of an agent. */
interface Operation {
    Object run(Fields fields) throws Exception;

    /** The fields of one command. */
    record Fields(Map<?, ?> values) {
        Object get(String name) {
            return values.get(name);
        }

        String text(String name) {
            return (String) values.get(name);
        }

        int number(String name, int otherwise) {
            return values.get(name) instanceof Number number ? number.intValue() : otherwise;
        }

        Duration seconds(String name, double otherwise) {
            double seconds = values.get(name) instanceof Number number ? number.doubleValue() : otherwise;
            return Duration.ofNanos((long) (seconds * 1e9));
        }

        String[] texts(String name) {
            Object value = values.get(name);
            return value instanceof List<?> items ? items.toArray(new String[0]) : new String[] {(String) value};
        }

        @SuppressWarnings("unchecked")
        Map<String, Object> map(String name) {
            Object value = values.get(name);
            return value == null ? Map.of() : (Map<String, Object>) value;
        }
    }
}
