package speed.internal.engine;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.internal.core.ServiceTable;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.fs.Posix;
import speed.internal.fs.ThisProcess;
import speed.internal.wire.Entry;
import speed.internal.wire.Limits;
import speed.internal.wire.NodeId;

/** Answers to DISCOVERY questions: what a node tells of itself to a node that it allows. */
public final class Introspection {
    /** What only the protocol part knows. */
    public interface Lanes {
        int openLanes();

        /** Adds what was dropped from lanes, by reason. */
        void addCounts(Map<String, Object> total);
    }

    /** Of an answer, for what stands around descriptions. */
    private static final int ROOM_BYTES = 4096;

    private final Context context;
    private final ServiceTable services;
    private final WorkerPool pool;
    private volatile Lanes lanes;

    public Introspection(Context context, ServiceTable services, WorkerPool pool) {
        this.context = context;
        this.services = services;
        this.pool = pool;
    }

    public void about(Lanes protocol) {
        lanes = protocol;
    }

    /** The result for an operation; null if there is no such operation. */
    public Map<String, Object> answer(String operation, String asker) {
        return switch (operation) {
            case "INFO" -> info(asker);
            case "SERVICES" -> Map.of("services", services.names(asker));
            case "DESCRIBE" ->
                Map.of("services", services.descriptions(asker, Limits.MAX_DISCOVERY_BYTES - ROOM_BYTES));
            case "STATS" -> stats(asker);
            default -> null;
        };
    }

    private Map<String, Object> info(String asker) {
        Entry entry = context.registration.entry();
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("name", entry.name());
        fields.put("nodeId", NodeId.of(entry.name()).hex());
        fields.put("generation", entry.generation());
        fields.put("language", entry.language());
        fields.put("version", entry.version());
        fields.put("pid", entry.process().pid());
        fields.put("host", entry.process().host());
        fields.put("fabrics", entry.published().fabrics());
        fields.put("features", entry.features());
        fields.put("startupTimestamp", entry.times().startupTimestamp());
        fields.put("services", services.names(asker));
        return fields;
    }

    private Map<String, Object> stats(String asker) {
        Map<String, Object> counters = context.stats.counters();
        lanes.addCounts(counters);
        List<String> visible = context.policy.observes(asker) ? services.names() : services.names(asker);
        long up = System.currentTimeMillis()
                - context.registration.entry().times().startupTimestamp();
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("name", context.name());
        fields.put("uptimeSeconds", Math.max(0, up) / 1000.0);
        fields.put("pendingCalls", context.pending.size());
        fields.put("lanes", lanes.openLanes());
        pool.addLoad(fields);
        addOpenFiles(fields);
        context.stats.addRows(fields);
        fields.put("counters", counters);
        fields.put("services", context.stats.services(visible));
        return fields;
    }

    /** Descriptors of this process, and how many it may have; nothing where the system does not tell. */
    private static void addOpenFiles(Map<String, Object> fields) {
        long open = ThisProcess.openFiles();
        if (open < 0) {
            return;
        }
        fields.put("openFiles", open);
        long most = Posix.mostDescriptors();
        if (most != Long.MAX_VALUE) {
            fields.put("maxOpenFiles", most);
        }
    }
}
