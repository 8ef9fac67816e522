package speed.internal.engine.call;

import java.time.Duration;
import java.util.function.Consumer;
import java.util.function.Function;
import speed.Stream;
import speed.errors.CallTimeoutException;
import speed.errors.CallWithdrawnException;
import speed.errors.Execution;
import speed.errors.InternalException;
import speed.errors.SpeedException;
import speed.internal.core.Family;
import speed.internal.engine.stream.ItemReader;
import speed.internal.engine.stream.StreamChannel;
import speed.internal.engine.stream.StreamChannel.Found;
import speed.internal.engine.stream.StreamChannel.Taken;
import speed.internal.wire.StreamPart.Progress;
import speed.options.StreamProgress;

/** The items of a call, for the program that made it. One thread at a time reads; any may close it. */
final class CallStream<T> extends ItemReader<T> implements Stream<T> {
    /** The call of a stream, as what made it knows it. */
    interface Made {
        /** The result of the call that has ended; throws its error. */
        Object outcome();

        /** Tells the server that nobody waits. */
        void withdraw();
    }

    private final Made call;
    private final String target;
    private final String service;
    private final Duration idle;
    private final Consumer<StreamProgress> listener;
    private volatile boolean hasEnded;
    private volatile SpeedException closed;
    private volatile ItemsThread sender;
    private Object result;

    /**
     * A stream that was begun.
     *
     * @param idle how long the next item is waited for; null for no limit
     * @param listener is told how far the service is; null for nobody
     */
    CallStream(
            StreamChannel channel,
            Made call,
            String target,
            String service,
            Duration idle,
            Consumer<StreamProgress> listener,
            Function<Object, T> reading,
            boolean views) {
        super(channel, reading, views);
        this.call = call;
        this.target = target;
        this.service = service;
        this.idle = idle;
        this.listener = listener;
    }

    /** Has a thread send items meanwhile; of a call that was begun with some. */
    void send(Iterable<?> items) {
        sender = new ItemsThread(channel, items, call::withdraw);
        sender.start();
    }

    /** Reads it on a thread of its own. */
    void onThread(String what, Runnable reading) {
        channel.thread(what, reading).start();
    }

    /** Tells the server that nobody waits; the call ends as it says. */
    void withdraw() {
        call.withdraw();
    }

    @Override
    public boolean hasNext() {
        if (closed != null) {
            throw closed;
        }
        return super.hasNext();
    }

    @Override
    public Object result() {
        while (hasNext()) {
            next();
        }
        return result;
    }

    @Override
    public void close() {
        leave(named(new CallWithdrawnException("the stream was closed here", StreamChannel.RUNNING)));
    }

    private void leave(SpeedException why) {
        synchronized (this) {
            if (hasEnded) {
                return;
            }
            hasEnded = true;
            closed = why;
        }
        call.withdraw();
        channel.close();
    }

    @Override
    protected Taken awaitTaken() {
        long began = System.nanoTime();
        Taken taken = channel.take();
        while (taken.found() == Found.NOTHING || taken.found() == Found.PROGRESS) {
            if (taken.found() == Found.PROGRESS) {
                tell(taken.progress());
                began = System.nanoTime();
            } else if (idle != null && System.nanoTime() - began >= idle.toNanos()) {
                throw new CallTimeoutException(
                        target + " sent nothing for " + idle.toMillis() + " ms", StreamChannel.RUNNING);
            }
            taken = channel.await();
        }
        return taken;
    }

    private void tell(Progress told) {
        if (listener != null) {
            Double total = told.total() == null ? null : told.total().doubleValue();
            listener.accept(new StreamProgress(told.done().doubleValue(), total, told.note()));
        }
    }

    @Override
    protected void end(Found how) {
        if (closed != null) {
            throw closed; // closed meanwhile
        }
        ItemsThread items = sender;
        if (items != null) {
            items.throwFailure();
        }
        if (channel.broken() != null) {
            throw new InternalException(target + ": " + channel.broken(), StreamChannel.RUNNING);
        }
        if (channel.outcome() == null) {
            throw channel.ended();
        }
        hasEnded = true;
        result = call.outcome();
    }

    @Override
    protected SpeedException failed(SpeedException failure) {
        SpeedException sticky = super.failed(named(failure));
        leave(sticky);
        return sticky;
    }

    private SpeedException named(SpeedException failure) {
        if (failure.node() == null || !Family.isFamily(target)) {
            failure.about(target, service);
        }
        if (failure.execution() == null) {
            failure.about(Execution.MAY_HAVE_RUN);
        }
        return failure;
    }
}
