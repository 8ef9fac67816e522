package speed.internal.engine.serve;

import java.util.function.Consumer;
import java.util.function.Function;
import speed.Request;
import speed.Response;
import speed.errors.SpeedException;
import speed.internal.core.Interceptors;
import speed.internal.core.ServiceTable;
import speed.internal.core.StreamCredit;
import speed.internal.core.StreamWindow;
import speed.internal.engine.Context;
import speed.internal.engine.lane.AcceptedRequest;
import speed.internal.engine.stream.ItemReader;
import speed.internal.engine.stream.ItemSender;
import speed.internal.engine.stream.StreamChannel;
import speed.internal.engine.stream.Streams;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.wire.Limits;
import speed.internal.wire.StreamOffer;

/** Requests beside which items or progress travel: the serving side (S-27 to S-34). Thread-safe. */
final class ServedStreams {
    private final Context context;
    private final WorkerPool pool;
    private final Answers answers;
    private final Interceptors<Request> around;
    private final Streams open = new Streams();

    ServedStreams(Context context, WorkerPool pool, Answers answers, Interceptors<Request> around) {
        this.context = context;
        this.pool = pool;
        this.answers = answers;
        this.around = around;
    }

    /** A STREAM envelope of a caller; false if nobody waits for it. */
    boolean arrive(String source, byte[] payload) {
        return open.arrive(source, payload);
    }

    /** Runs a service; its items are sent when this returns. Never throws for what it does wrong. */
    Response run(AcceptedRequest accepted, ServiceTable.Found found, Request request, Consumer<Throwable> failed) {
        StreamOffer offer = accepted.head.stream();
        Response refusal = found.refusal(request.service(), offer);
        if (refusal != null) {
            return refusal;
        }
        StreamChannel channel = channel(accepted, offer);
        open.add(accepted.source(), channel);
        accepted.cancellation.onCancel(channel::close);
        try {
            Request heard = offer.progress() ? request.heardBy(channel::report) : request;
            return ServiceTable.invoke(
                    one -> around.through(one, through -> serve(channel, found, through)), heard, failed);
        } finally {
            open.remove(accepted.source(), channel.requestId());
            channel.close();
        }
    }

    private StreamChannel channel(AcceptedRequest accepted, StreamOffer offer) {
        return new StreamChannel(
                context.name(),
                accepted.head.requestId(),
                pool,
                StreamWindow.closed(Limits.STREAM_ITEMS, Limits.STREAM_BYTES),
                new StreamCredit(offer.items(), offer.bytes()),
                (payload, mayWait) -> answers.sendPart(accepted.source(), accepted.generation(), payload, mayWait),
                ended -> false);
    }

    private static Object serve(StreamChannel channel, ServiceTable.Found found, Request request) throws Exception {
        ItemReader<Object> reader =
                new ItemReader<>(channel, Function.identity(), found.options().views());
        if (found.takesItems()) {
            channel.open();
        }
        ItemSender sender = new ItemSender(channel, unsent -> {}); // the service hears of it when it writes
        try {
            Object answer = answer(sender, found, request, reader);
            sender.finish(false);
            return answer;
        } finally {
            sender.stop();
        }
    }

    /** What came before an error is read before it. */
    private static Object answer(
            ItemSender sender, ServiceTable.Found found, Request request, ItemReader<Object> reader) throws Exception {
        try {
            return found.serve(request, reader, sender);
        } catch (Throwable failure) {
            try {
                sender.finish(false);
            } catch (SpeedException unsent) {
                failure.addSuppressed(unsent);
            }
            throw failure;
        }
    }
}
