package speed.values;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * What a component of a record is in the map that it travels as, where that is not its own name and value.
 *
 * <pre>{@code
 * record Seat(@Member(name = "class") String category, @Member(leftOut = true) Optional<String> note) {}
 * }</pre>
 */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.RECORD_COMPONENT)
public @interface Member {
    /**
     * The key in the map.
     *
     * @return the key; empty for the name of the component
     */
    String name() default "";

    /**
     * Whether an empty {@code Optional} is left out of the map, in place of null.
     *
     * @return whether it is
     */
    boolean leftOut() default false;
}
