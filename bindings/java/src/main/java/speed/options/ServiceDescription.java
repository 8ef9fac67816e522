package speed.options;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import speed.columns.Column;
import speed.errors.ConfigurationException;
import speed.errors.InvalidArgumentsException;
import speed.internal.wire.Conversion;
import speed.internal.wire.Conversion.Mismatch;
import speed.internal.wire.Limits;
import speed.internal.wire.Require;
import speed.internal.wire.TypeSchema;
import speed.internal.wire.Values;

/**
 * What a service is, for people and programs: {@code speed describe} and {@link speed.Peers#describe} show it. Declared
 * parameters are checked before the service is invoked. Immutable: each method returns another description.
 *
 * <pre>{@code
 * node.register("tax", tax, ServiceOptions.DEFAULT.withDescription(ServiceDescription.of("What is due on an amount.")
 *         .withParameter("amount", Double.class)
 *         .withOptionalParameter("region", String.class)
 *         .withResult(Double.class)));
 * }</pre>
 */
public final class ServiceDescription {
    private record Parameter(String name, Class<?> type, boolean required) {}

    private final String summary;
    private final String version;
    private final List<Parameter> parameters; // null where they are not declared
    private final Class<?> result;
    private final boolean columns;

    private ServiceDescription(
            String summary, String version, List<Parameter> parameters, Class<?> result, boolean columns) {
        this.summary = summary;
        this.version = version;
        this.parameters = parameters;
        this.result = result;
        this.columns = columns;
    }

    /**
     * A service that declares nothing else yet.
     *
     * @param summary one line
     * @return its description
     */
    public static ServiceDescription of(String summary) {
        return new ServiceDescription(Require.value("summary", summary), "", null, null, false);
    }

    /**
     * The version of the service itself.
     *
     * @param version any text
     * @return such a description
     */
    public ServiceDescription withVersion(String version) {
        return new ServiceDescription(summary, Require.value("version", version), parameters, result, columns);
    }

    /**
     * A parameter that each call gives.
     *
     * @param name of the argument
     * @param type as {@link speed.Value#as} takes it
     * @return such a description
     * @throws ConfigurationException for a name that is empty or stands twice
     */
    public ServiceDescription withParameter(String name, Class<?> type) {
        return with(new Parameter(name, Require.value("type", type), true));
    }

    /**
     * A parameter that a call may leave out.
     *
     * @param name of the argument
     * @param type as {@link speed.Value#as} takes it
     * @return such a description
     * @throws ConfigurationException for a name that is empty or stands twice
     */
    public ServiceDescription withOptionalParameter(String name, Class<?> type) {
        return with(new Parameter(name, Require.value("type", type), false));
    }

    /**
     * A service that takes no arguments.
     *
     * @return such a description
     */
    public ServiceDescription withoutParameters() {
        return new ServiceDescription(summary, version, List.of(), result, columns);
    }

    /**
     * The type of what the service answers.
     *
     * @param type of the result
     * @return such a description
     */
    public ServiceDescription withResult(Class<?> type) {
        return new ServiceDescription(summary, version, parameters, Require.value("type", type), columns);
    }

    /**
     * A service that takes columns, one value for each row: a column is not checked by what is declared for a value.
     *
     * @return such a description
     */
    public ServiceDescription withColumns() {
        return new ServiceDescription(summary, version, parameters, result, true);
    }

    private ServiceDescription with(Parameter parameter) {
        List<Parameter> all = new ArrayList<>(parameters == null ? List.of() : parameters);
        if (parameter.name() == null || parameter.name().isEmpty()) {
            throw new ConfigurationException("a service's parameter has no name");
        }
        if (all.stream().anyMatch(one -> one.name().equals(parameter.name()))) {
            throw new ConfigurationException("a service's parameter '" + parameter.name() + "' is declared twice");
        }
        all.add(parameter);
        return new ServiceDescription(summary, version, List.copyOf(all), result, columns);
    }

    /**
     * As it travels; parameters and result stay away where they are too large.
     *
     * @param name of the service
     * @param idempotent whether a call may run again
     * @return a map of its fields
     */
    public Map<String, Object> asMap(String name, boolean idempotent) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("name", name);
        fields.put("summary", Values.shortened(summary, Limits.MAX_SUMMARY_CHARACTERS));
        fields.put("version", Values.shortened(version, Limits.MAX_SUMMARY_CHARACTERS));
        fields.put("streaming", false);
        fields.put("idempotent", idempotent);
        fields.put("columns", columns);
        Map<String, Object> schemas = schemas();
        if (Values.encode(schemas, "schemas").length <= Limits.MAX_DESCRIPTION_BYTES) {
            fields.putAll(schemas);
        }
        return fields;
    }

    private Map<String, Object> schemas() {
        Map<String, Object> schemas = new LinkedHashMap<>();
        if (parameters != null) {
            Map<String, Object> properties = new LinkedHashMap<>();
            parameters.forEach(one -> properties.put(one.name(), TypeSchema.of(one.type())));
            Map<String, Object> object = new LinkedHashMap<>();
            object.put("type", "object");
            object.put("properties", properties);
            List<String> required = parameters.stream()
                    .filter(Parameter::required)
                    .map(Parameter::name)
                    .toList();
            if (!required.isEmpty()) {
                object.put("required", required);
            }
            object.put("additionalProperties", false);
            schemas.put("parameters", object);
        }
        if (result != null) {
            schemas.put("result", TypeSchema.of(result));
        }
        return schemas;
    }

    /**
     * Refuses arguments that are not as declared; nothing where no parameters are.
     *
     * @param service its name
     * @param arguments of one call
     * @throws InvalidArgumentsException naming the first argument that is unknown, missing or of another type
     */
    public void check(String service, Map<String, Object> arguments) {
        if (parameters == null) {
            return;
        }
        for (Map.Entry<String, Object> given : arguments.entrySet()) {
            Parameter known = parameters.stream()
                    .filter(one -> one.name().equals(given.getKey()))
                    .findFirst()
                    .orElseThrow(() -> unknown(service, given.getKey()));
            if (!columns || !(given.getValue() instanceof Column)) { // the service looks at each row
                check(service, known, given.getValue());
            }
        }
        for (Parameter one : parameters) {
            if (one.required() && !arguments.containsKey(one.name()) && one.type() != Optional.class) {
                throw new InvalidArgumentsException(
                        service + ": argument '" + one.name() + "' is missing", Map.of("argument", one.name()));
            }
        }
    }

    private static void check(String service, Parameter parameter, Object value) {
        try {
            Conversion.to(parameter.type(), value, "argument '" + parameter.name() + "'");
        } catch (Mismatch misfit) {
            throw new InvalidArgumentsException(
                    service + ": " + misfit.getMessage(),
                    Map.of("argument", parameter.name(), "expected", misfit.expected(), "given", misfit.given()));
        }
    }

    private InvalidArgumentsException unknown(String service, String name) {
        String possible =
                String.join(", ", parameters.stream().map(Parameter::name).toList());
        return new InvalidArgumentsException(
                service + ": argument '" + name + "' is unknown; there are " + (possible.isEmpty() ? "none" : possible),
                Map.of("argument", name));
    }
}
