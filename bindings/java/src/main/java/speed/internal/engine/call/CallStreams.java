package speed.internal.engine.call;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Function;
import speed.Stream;
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
    public <T> Stream<T> stream(
            Calls.Asked asked, Members members, StreamOptions options, Function<Object, T> reading, boolean views) {
        StreamOffer offer = new StreamOffer(
                options.windowItems(), options.windowBytes(), options.items() != null, options.onProgress() != null);
        Duration timeout = options.timeout() == null ? FOR_EVER : options.timeout();
        Calls.Asked whole = asked.within(timeout).beside(offer);
        CallStream<T> stream = begin(whole, members, options.idleTimeout(), options.onProgress(), reading, views);
        if (options.items() != null) {
            stream.send(options.items());
        }
        return stream;
    }

    /** Calls a service and waits for its result; this thread tells the program how far it is. */
    public Object call(Calls.Asked asked, Members members, Consumer<StreamProgress> listener, boolean views) {
        Calls.Asked whole = asked.beside(new StreamOffer(0, 0, false, true));
        try (CallStream<Object> stream = begin(whole, members, null, listener, Function.identity(), views)) {
            return stream.result();
        }
    }

    /** Starts such a call; a thread of its own tells the program how far it is. */
    public CompletableFuture<Object> submit(Calls.Asked asked, Members members, Consumer<StreamProgress> listener) {
        Calls.Asked whole = asked.beside(new StreamOffer(0, 0, false, true));
        ToldCall call = new ToldCall(begin(whole, members, null, listener, Function.identity(), false));
        call.stream.onThread("progress", call::read);
        return call;
    }

    /** A call that is under way, and whose progress is told. */
    private static final class ToldCall extends CompletableFuture<Object> {
        private final CallStream<Object> stream;

        ToldCall(CallStream<Object> stream) {
            this.stream = stream;
        }

        void read() {
            try {
                complete(stream.result());
            } catch (Throwable failure) { // the listener is the program's code
                stream.close();
                completeExceptionally(failure);
            }
        }

        /** Withdraws the call: it ends as its server says. */
        @Override
        public boolean cancel(boolean mayInterruptIfRunning) {
            if (!isDone()) {
                stream.withdraw();
            }
            return isCancelled();
        }
    }

    private <T> CallStream<T> begin(
            Calls.Asked asked,
            Members members,
            Duration idle,
            Consumer<StreamProgress> listener,
            Function<Object, T> reading,
            boolean views) {
        StreamOffer offer = asked.offer();
        StreamCourse course = new StreamCourse(calls, open, asked, members, views);
        StreamChannel channel = new StreamChannel(
                context.name(),
                "",
                pool,
                StreamWindow.opened(offer.items(), offer.bytes()),
                new StreamCredit(0, 0),
                (payload, mayWait) -> write(course.member(), payload),
                course);
        course.begin(channel);
        return new CallStream<>(channel, course, asked.target(), asked.service(), idle, listener, reading, views);
    }

    private void write(String target, byte[] payload) {
        context.checkOpen();
        long deadline = System.nanoTime() + StreamChannel.WRITE_NANOS;
        Load load = Load.of(EnvelopeType.STREAM, 0, payload, deadline);
        pool.blocking(() -> links.granted(target, deadline).send(load));
    }
}
