package speed.runtime;

import java.util.function.BiConsumer;
import speed.Message;
import speed.core.Token;

/**
 * One message on its way; {@code acknowledge} and {@code refuse} (code, text) answer its sender if it asked for it. Lane
 * and token commit it together with others; they are null for one that waited for {@code receive}.
 */
record Arrival(
        Message message, boolean isEvent, Lane lane, Token token, Runnable acknowledge,
        BiConsumer<String, String> refuse) {
    /** The same with its message opened. */
    Arrival with(Message opened) {
        return new Arrival(opened, isEvent, lane, token, acknowledge, refuse);
    }

    /** One whose sender asked for no answer. */
    static Arrival silent(Message message, boolean isEvent, Lane lane, Token token) {
        return new Arrival(message, isEvent, lane, token, () -> {}, (code, text) -> {});
    }

    /** One that waited for {@code receive}; its sender has its answer. */
    static Arrival waited(Message message) {
        return silent(message, false, null, null);
    }
}
