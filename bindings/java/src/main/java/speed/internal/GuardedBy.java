package speed.internal;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * A field is read and written, or a method called, only while a lock is held: {@code this} is the monitor of the object,
 * any other name a field. The name is the one that checkers know; here {@code GuardedFieldsTest} looks.
 */
@Documented
@Retention(RetentionPolicy.CLASS)
@Target({ElementType.FIELD, ElementType.METHOD})
public @interface GuardedBy {
    /**
     * The lock.
     *
     * @return its name
     */
    String value();
}
