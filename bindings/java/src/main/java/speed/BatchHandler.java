package speed;

import java.util.List;
import java.util.Map;

/** Handles messages and events many at a time: see {@link Messenger#onBatch}. */
@FunctionalInterface
public interface BatchHandler {
    /**
     * Takes a batch. All of it is acknowledged and finished when this returns.
     *
     * @param messages in order for each sender, at least one
     * @return why the messages at these places are refused, which their senders are told; empty if none is
     * @throws Exception when nothing of it was taken: it is handed over again after a moment
     */
    Map<Integer, String> handle(List<Message> messages) throws Exception;
}
