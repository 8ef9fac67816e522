package speed.internal.segment;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import speed.internal.wire.Contract;
import speed.tool.Vectors.Cuts;

/** The cases of segments.json by name, each cut once. */
final class Cases {
    private static final Map<String, Contract> BY_NAME = new HashMap<>();
    private static final Map<String, List<Segment>> CUT = new HashMap<>();

    static {
        Contract.vectors("segments").cases("cut").forEach(one -> BY_NAME.put(one.text("name"), one));
    }

    private Cases() {}

    static byte[] payload(String name) {
        return Cuts.payload(BY_NAME.get(name).values());
    }

    static synchronized List<Segment> segments(String name) {
        return CUT.computeIfAbsent(name, any -> Cuts.segments(BY_NAME.get(name).values()));
    }
}
