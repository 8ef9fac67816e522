package speed.internal.engine.call;

import java.time.Duration;
import java.util.function.Consumer;
import java.util.function.Function;
import speed.Stream;
import speed.errors.SpeedException;
import speed.internal.core.StreamCredit;
import speed.internal.core.StreamWindow;
import speed.internal.engine.Context;
import speed.internal.engine.link.Envelopes.Load;
import speed.internal.engine.link.Links;
import speed.internal.engine.stream.StreamChannel;
import speed.internal.engine.stream.Streams;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.StreamOffer;
import speed.options.StreamOptions;
import speed.options.StreamProgress;

/** Calls beside which items or progress travel: the caller's side (S-27 to S-34). Thread-safe. */
public final class CallStreams {
    /** The deadline of a stream that has none: of two nodes one will have ended. */
    private static final Duration FOR_EVER = Duration.ofDays(3650);

    private final Context context;
    private final Links links;
    private final WorkerPool pool;
    private final Calls calls;
    private final Streams open = new Streams();

    public CallStreams(Context context, Links links, WorkerPool pool, Calls calls) {
        this.context = context;
        this.links = links;
        this.pool = pool;
        this.calls = calls;
    }

    /** A STREAM envelope of a server; false if nobody waits for it. */
    public boolean arrive(String source, byte[] payload) {
        return open.arrive(source, payload);
    }

    /** Calls a service that gives or takes many items. */
    public <T> Stream<T> stream(Calls.Asked asked, StreamOptions options, Function<Object, T> reading, boolean views) {
        StreamOffer offer = new StreamOffer(
                options.windowItems(), options.windowBytes(), options.items() != null, options.onProgress() != null);
        Duration timeout = options.timeout() == null ? FOR_EVER : options.timeout();
        Calls.Asked whole = asked.within(timeout).beside(offer);
        CallStream<T> stream = begin(whole, options.idleTimeout(), options.onProgress(), reading, views);
        if (options.items() != null) {
            stream.send(options.items());
        }
        return stream;
    }

    /** Calls a service and waits for its result; this thread tells the program how far it is. */
    public Object call(Calls.Asked asked, Consumer<StreamProgress> listener, boolean views) {
        Calls.Asked whole = asked.beside(new StreamOffer(0, 0, false, true));
        try (CallStream<Object> stream = begin(whole, null, listener, Function.identity(), views)) {
            return stream.result();
        }
    }

    private <T> CallStream<T> begin(
            Calls.Asked asked,
            Duration idle,
            Consumer<StreamProgress> listener,
            Function<Object, T> reading,
            boolean views) {
        String target = asked.target();
        String requestId = calls.nextId();
        StreamOffer offer = asked.offer();
        StreamChannel channel = new StreamChannel(
                context.name(),
                requestId,
                pool,
                StreamWindow.opened(offer.items(), offer.bytes()),
                new StreamCredit(0, 0),
                (payload, mayWait) -> write(target, payload));
        open.add(target, channel);
        try {
            calls.start(requestId, asked, outcome -> {
                open.remove(target, requestId);
                channel.end(outcome);
            });
        } catch (SpeedException failure) {
            open.remove(target, requestId);
            failure.about(target, asked.service());
            throw failure;
        }
        return new CallStream<>(
                channel, made(channel, target, views), target, asked.service(), idle, listener, reading, views);
    }

    private CallStream.Made made(StreamChannel channel, String target, boolean views) {
        return new CallStream.Made() {
            @Override
            public Object outcome() {
                return calls.read(channel.outcome(), views);
            }

            @Override
            public void withdraw() {
                open.remove(target, channel.requestId);
                calls.withdraw(target, channel.requestId);
            }
        };
    }

    private void write(String target, byte[] payload) {
        context.checkOpen();
        long deadline = System.nanoTime() + StreamChannel.WRITE_NANOS;
        Load load = Load.of(EnvelopeType.STREAM, 0, payload, deadline);
        pool.blocking(() -> links.granted(target, deadline).send(load));
    }
}
