package speed.internal.engine.stream;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import speed.internal.wire.StreamPart;

/** The channels of one side of a node: which envelope is for which. Thread-safe. */
public final class Streams {
    private record Key(String node, String requestId) {}

    private final Map<Key, StreamChannel> channels = new ConcurrentHashMap<>();

    /** A stream with another node begins. */
    public void add(String node, StreamChannel channel) {
        channels.put(new Key(node, channel.requestId()), channel);
    }

    /** A stream is over. */
    public void remove(String node, String requestId) {
        channels.remove(new Key(node, requestId));
    }

    /** A STREAM envelope of a node; false if nobody waits for it. WireException for one that cannot be read. */
    public boolean arrive(String node, byte[] payload) {
        StreamPart part = StreamPart.decode(payload);
        StreamChannel channel = channels.get(new Key(node, part.requestId()));
        if (channel == null) {
            return false;
        }
        channel.arrive(part, payload);
        return true;
    }
}
