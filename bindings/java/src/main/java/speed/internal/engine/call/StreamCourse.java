package speed.internal.engine.call;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import speed.errors.SpeedException;
import speed.internal.core.PendingCalls.Outcome;
import speed.internal.engine.stream.StreamChannel;
import speed.internal.engine.stream.Streams;

/**
 * The call of one stream: of a family it goes from member to member until one begins it (S-40); nothing went over its channel
 * before. One thread reads and another one may write; whichever finds that a member began nothing asks the next one.
 */
final class StreamCourse implements CallStream.Made, StreamChannel.Renewal {
    private final Calls calls;
    private final Streams open;
    private final Calls.Asked asked;
    private final Members members;
    private final boolean views;
    private final long until;
    /** Whether the present member has one more call under way. */
    private final AtomicBoolean isCounted = new AtomicBoolean();

    private StreamChannel channel;
    private volatile String member;
    private volatile boolean isWithdrawn;
    private volatile boolean isFinal;
    private volatile Object result;
    private volatile SpeedException error;

    StreamCourse(Calls calls, Streams open, Calls.Asked asked, Members members, boolean views) {
        this.calls = calls;
        this.open = open;
        this.asked = asked;
        this.members = members;
        this.views = views;
        until = System.nanoTime() + asked.timeout().toNanos();
    }

    /** Whom its parts go to. */
    String member() {
        return member;
    }

    /** Asks the first one; throws what no other one could change. */
    void begin(StreamChannel made) {
        channel = made;
        ask();
    }

    private void ask() {
        while (true) {
            String name = members.take();
            try {
                ask(name);
                return;
            } catch (SpeedException failure) {
                release();
                failure.about(name, asked.service());
                members.failed(failure, name);
            }
        }
    }

    private void ask(String name) {
        String requestId = calls.nextId();
        member = name;
        isCounted.set(true);
        channel.begin(requestId);
        open.add(name, channel);
        try {
            calls.start(requestId, asked.to(name).within(left()), outcome -> {
                open.remove(name, requestId);
                channel.end(outcome);
            });
        } catch (SpeedException failure) {
            open.remove(name, requestId);
            throw failure;
        }
        if (isWithdrawn) {
            withdraw();
        }
    }

    private Duration left() {
        return Duration.ofNanos(Math.max(0, until - System.nanoTime()));
    }

    private void release() {
        if (isCounted.getAndSet(false)) {
            members.ended(member);
        }
    }

    @Override
    public boolean renew(Outcome ended) {
        if (isFinal) {
            return false;
        }
        release();
        try {
            if (goesOn(ended)) {
                return true;
            }
        } catch (SpeedException last) {
            error = last;
            channel.end(Outcome.failed(last));
        }
        isFinal = true;
        return false;
    }

    private boolean goesOn(Outcome ended) {
        try {
            result = calls.read(ended, views);
            return false;
        } catch (SpeedException failure) {
            members.failed(failure, member);
            ask();
            return true;
        }
    }

    @Override
    public Object outcome() {
        if (error != null) {
            throw error;
        }
        return result;
    }

    @Override
    public void withdraw() {
        isWithdrawn = true;
        String present = member;
        String requestId = channel.requestId();
        open.remove(present, requestId);
        calls.withdraw(present, requestId);
        release();
    }
}
