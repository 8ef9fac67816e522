package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.module.ModuleDescriptor;
import java.lang.reflect.Executable;
import java.lang.reflect.Field;
import java.lang.reflect.GenericDeclaration;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Type;
import java.lang.reflect.TypeVariable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What programs may name, read from what is compiled: the exported packages, and the types in the signatures there. */
class ExportsTest {
    private static final Path CLASSES = Path.of("target/classes");
    private static final Pattern OWN_TYPE = Pattern.compile("speed\\.[\\w.$]+");

    @Test
    void onlyThePackagesOfProgramsAreExported() throws IOException {
        assertEquals(
                new TreeSet<>(Set.of(
                        "speed",
                        "speed.columns",
                        "speed.errors",
                        "speed.message",
                        "speed.options",
                        "speed.topics",
                        "speed.values")),
                new TreeSet<>(exported()));
    }

    @Test
    void noSignatureNamesATypeThatProgramsCannotName() throws IOException {
        Set<Class<?>> visible = visible();
        assertTrue(visible.size() > 80, visible::toString);
        Set<String> names = visible.stream().map(Class::getName).collect(Collectors.toSet());
        List<String> hidden = new ArrayList<>();
        visible.forEach(type -> signatures(type)
                .forEach(signature -> OWN_TYPE.matcher(signature.getTypeName())
                        .results()
                        .map(found -> found.group())
                        .filter(name -> !names.contains(name))
                        .forEach(name -> hidden.add(type.getName() + " shows " + name))));
        assertEquals(List.of(), hidden);
    }

    private static Set<String> exported() throws IOException {
        try (InputStream file = Files.newInputStream(CLASSES.resolve("module-info.class"))) {
            return ModuleDescriptor.read(file).exports().stream()
                    .filter(one -> !one.isQualified())
                    .map(ModuleDescriptor.Exports::source)
                    .collect(Collectors.toSet());
        }
    }

    private static Set<Class<?>> visible() throws IOException {
        List<Path> files = new ArrayList<>();
        for (String name : exported()) {
            try (Stream<Path> inside = Files.list(CLASSES.resolve(name.replace('.', '/')))) {
                inside.filter(file -> file.toString().endsWith(".class")).forEach(files::add);
            }
        }
        return files.stream()
                .map(ExportsTest::loaded)
                .filter(ExportsTest::isVisible)
                .collect(Collectors.toSet());
    }

    private static Class<?> loaded(Path file) {
        String name = CLASSES.relativize(file).toString().replace(".class", "").replace('/', '.');
        try {
            return Class.forName(name, false, ExportsTest.class.getClassLoader());
        } catch (ClassNotFoundException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static boolean isVisible(Class<?> type) {
        boolean isShown = isShown(type.getModifiers()) && !type.isAnonymousClass() && !type.isLocalClass();
        return isShown && (type.getDeclaringClass() == null || isVisible(type.getDeclaringClass()));
    }

    private static boolean isShown(int modifiers) {
        return Modifier.isPublic(modifiers) || Modifier.isProtected(modifiers);
    }

    /** All types that its declaration and its members name. */
    private static Stream<Type> signatures(Class<?> type) {
        Stream<Type> parents = Stream.concat(
                Stream.ofNullable(type.getGenericSuperclass()), Arrays.stream(type.getGenericInterfaces()));
        Stream<Type> fields = Arrays.stream(type.getDeclaredFields())
                .filter(one -> isShown(one.getModifiers()))
                .map(Field::getGenericType);
        Stream<Executable> executables =
                Stream.concat(Arrays.stream(type.getDeclaredConstructors()), Arrays.stream(type.getDeclaredMethods()));
        Stream<Type> members = executables
                .filter(one -> isShown(one.getModifiers()) && !one.isSynthetic())
                .flatMap(ExportsTest::named);
        return Stream.of(parents, bounds(type), fields, members).flatMap(one -> one);
    }

    private static Stream<Type> named(Executable member) {
        Stream<Type> taken = Stream.concat(
                Arrays.stream(member.getGenericParameterTypes()), Arrays.stream(member.getGenericExceptionTypes()));
        Stream<Type> given = member instanceof Method method ? Stream.of(method.getGenericReturnType()) : Stream.of();
        return Stream.of(taken, given, bounds(member)).flatMap(one -> one);
    }

    private static Stream<Type> bounds(GenericDeclaration declared) {
        return Arrays.stream(declared.getTypeParameters())
                .map(TypeVariable::getBounds)
                .flatMap(Arrays::stream);
    }
}
