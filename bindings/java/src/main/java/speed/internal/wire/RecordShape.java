package speed.internal.wire;

import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.RecordComponent;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import speed.errors.ConfigurationException;
import speed.values.Member;

/**
 * How a record class is taken apart and made. Immutable.
 *
 * @param components in their order
 * @param accessors of the components
 * @param constructor takes all components
 */
record RecordShape(List<RecordComponent> components, List<Method> accessors, Constructor<?> constructor) {
    private static final ClassValue<RecordShape> SHAPES = new ClassValue<>() {
        @Override
        protected RecordShape computeValue(Class<?> type) {
            return look(type);
        }
    };

    /** The shape of a class; ConfigurationException if its module hides it. */
    static RecordShape of(Class<?> type) {
        return SHAPES.get(type);
    }

    private static RecordShape look(Class<?> type) {
        List<RecordComponent> components = List.of(type.getRecordComponents());
        Class<?>[] types = components.stream().map(RecordComponent::getType).toArray(Class<?>[]::new);
        try {
            Constructor<?> constructor = opened(type, type.getDeclaredConstructor(types));
            return new RecordShape(
                    components,
                    components.stream()
                            .map(one -> opened(type, one.getAccessor()))
                            .toList(),
                    constructor);
        } catch (NoSuchMethodException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static <T extends AccessibleObject> T opened(Class<?> type, T member) {
        if (!member.trySetAccessible()) {
            throw new ConfigurationException("record " + type.getName()
                    + " cannot be read: its module must open package " + type.getPackageName() + " to module speed");
        }
        return member;
    }

    /** The components of a record by name. */
    Map<String, Object> members(Object whole) {
        Map<String, Object> members = new LinkedHashMap<>();
        for (int index = 0; index < components.size(); index++) {
            Object member = member(whole, accessors.get(index));
            if (!isLeftOut(components.get(index), member)) {
                members.put(key(components.get(index)), member);
            }
        }
        return members;
    }

    /** The name of a component in the map. */
    static String key(RecordComponent component) {
        Member told = component.getAnnotation(Member.class);
        return told == null || told.name().isEmpty() ? component.getName() : told.name();
    }

    private static boolean isLeftOut(RecordComponent component, Object member) {
        Member told = component.getAnnotation(Member.class);
        return told != null && told.leftOut() && member instanceof Optional<?> value && value.isEmpty();
    }

    private static Object member(Object whole, Method accessor) {
        try {
            return accessor.invoke(whole);
        } catch (InvocationTargetException failed) {
            throw unchecked(failed.getCause());
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** A record of these components; what its constructor throws is thrown. */
    Object make(Object[] values) {
        try {
            return constructor.newInstance(values);
        } catch (InvocationTargetException failed) {
            throw unchecked(failed.getCause());
        } catch (ReflectiveOperationException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static RuntimeException unchecked(Throwable thrown) {
        if (thrown instanceof Error error) {
            throw error;
        }
        return thrown instanceof RuntimeException known ? known : new IllegalStateException(thrown);
    }
}
