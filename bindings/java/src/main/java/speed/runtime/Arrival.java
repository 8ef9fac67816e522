package speed.runtime;

import java.util.function.BiConsumer;
import speed.Message;

/** One message on its way; {@code acknowledge} and {@code refuse} (code, text) answer its sender if it asked for it. */
record Arrival(Message message, boolean isEvent, Runnable acknowledge, BiConsumer<String, String> refuse) {
    /** One whose sender asked for no answer, or already has it. */
    static Arrival silent(Message message, boolean isEvent) {
        return new Arrival(message, isEvent, () -> {}, (code, text) -> {});
    }
}
