package speed.internal.wire;

import java.math.BigDecimal;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Map;
import java.util.UUID;
import java.util.function.Function;
import java.util.regex.Pattern;

/** Types that travel as a text of one form. The JDK reads more forms than this, and each value has one only. */
final class Texts {
    private static final String DATE = "(?!0000)\\d{4}-\\d\\d-\\d\\d";
    private static final String TIME = "\\d\\d:\\d\\d:\\d\\d(\\.\\d{1,6})?";
    private static final Map<Class<?>, Form> FORMS = Map.of(
            UUID.class, new Form("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", UUID::fromString),
            LocalDate.class, new Form(DATE, LocalDate::parse),
            LocalTime.class, new Form(TIME, LocalTime::parse),
            LocalDateTime.class, new Form(DATE + "T" + TIME, LocalDateTime::parse),
            BigDecimal.class, new Form("-?\\d+(\\.\\d+)?", BigDecimal::new));

    private record Form(Pattern pattern, Function<String, Object> read) {
        Form(String pattern, Function<String, Object> read) {
            this(Pattern.compile(pattern), read);
        }
    }

    private Texts() {}

    static boolean has(Class<?> type) {
        return type.isEnum() || FORMS.containsKey(type);
    }

    /** A text as one of these types; null for a text of another form. */
    static Object as(Class<?> type, String text) {
        if (type.isEnum()) {
            return constant(type, text);
        }
        Form form = FORMS.get(type);
        if (text.length() > Plain.MAX_DECIMAL_CHARACTERS || !form.pattern.matcher(text).matches()) {
            return null;
        }
        try {
            return form.read.apply(text);
        } catch (DateTimeException noSuchDay) {
            return null;
        }
    }

    private static Object constant(Class<?> type, String name) {
        for (Object one : type.getEnumConstants()) {
            if (((Enum<?>) one).name().equals(name)) {
                return one;
            }
        }
        return null;
    }
}
