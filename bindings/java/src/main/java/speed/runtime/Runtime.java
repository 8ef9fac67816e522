package speed.runtime;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import speed.AccessPolicy;
import speed.errors.RootException;
import speed.errors.SpeedException;
import speed.fs.Bell;
import speed.fs.Fences;
import speed.fs.Filesystem;
import speed.fs.Inbox;
import speed.fs.KeyFiles;
import speed.fs.PosixException;
import speed.fs.Registrant;
import speed.fs.Registration;
import speed.fs.Registry;
import speed.wire.Control;
import speed.wire.Entry;
import speed.wire.Names;
import speed.wire.NodeId;

/** One running node: its parts, started in the order of R-5 and stopped in the order of R-15. */
public final class Runtime {
    private static final long READER_NANOS = 5_000_000_000L;

    private final Parts parts;
    private final Context context;
    private final Dispatch dispatch;
    private final Protocol protocol;
    private final Registrar registrar;
    private final Outbox outbox;

    /** What is made between winning a claim and publishing the entry: nobody can see the node yet. */
    private static final class Prepared {
        private Inbox inbox;
        private Bell bell;

        void prepare(Options options, Registry registry, boolean polling, int generation) {
            try {
                inbox = new Inbox(options.root(), options.name(), generation, registry.keyring());
                inbox.prepare();
                if (generation > 1) {
                    Fences.set(options.root(), options.name(), generation, registry.keyring());
                }
                String path = Names.bellPath(options.root(), options.name());
                bell = polling ? null : Bell.open(path, NodeId.of(options.name()));
            } catch (PosixException error) {
                throw new RootException("cannot prepare the inbox of '" + options.name() + "': " + error.getMessage());
            }
        }

        /** The node does not start: nothing stays open. */
        void release() {
            if (bell != null) {
                bell.close();
            }
            if (inbox != null) {
                inbox.close();
            }
        }
    }

    private Runtime(Context context, Prepared prepared) throws PosixException {
        this.context = context;
        WorkerPool pool = new WorkerPool(context.name(), context.options.workers());
        Links links = new Links(context);
        Answers answers = new Answers(context, links);
        Serving serving = new Serving(context, links, pool, answers);
        Protected messages = new Protected(context.options.security());
        parts = new Parts(context, links, new Calls(context, links, pool), serving,
                new Delivery(context, pool, messages),
                new Introspection(context, serving.services), pool);
        dispatch = new Dispatch(parts, this::left);
        protocol = new Protocol(context, prepared.bell, prepared.inbox, dispatch);
        registrar = new Registrar(context, this::abort, this::left, pool::submit);
        outbox = new Outbox(context, links, parts.calls(), messages);
        parts.introspection().about(protocol);
        context.onHeed(protocol::heed);
        links.onOpen(protocol::watchReader);
        if (Files.isDirectory(Path.of(Names.segmentsDirectory(context.options.root(), context.name())))) {
            dispatch.segments();
        }
        pool.start(new Duties(protocol, answers, context));
        registrar.start();
    }

    /** What the members of the pool do with the role. */
    private record Duties(Protocol protocol, Answers answers, Context context) implements WorkerPool.Reading {
        @Override
        public void step(boolean wait) {
            protocol.step(wait);
        }

        @Override
        public void flush() {
            answers.flush();
        }

        @Override
        public boolean flushAtOnce() {
            return answers.flushAtOnce();
        }

        @Override
        public int waitingAnswers() {
            return answers.size();
        }

        @Override
        public boolean hasOpenCalls() {
            return !context.pending.isEmpty();
        }

        @Override
        public void wake() {
            protocol.wake();
        }
    }

    /** Checks everything, claims the name, publishes the entry, starts the threads. */
    public static Runtime start(Options options) {
        Names.checkNode(options.name());
        options.check();
        AccessPolicy policy = new AccessPolicy(options.allow().toArray(new String[0]));
        Registry registry = new Registry(options.root(), KeyFiles.load(options.key()));
        registry.prepare();
        Filesystem filesystem = Filesystem.of(options.root());
        options.check(filesystem);
        boolean polling = options.polling() || filesystem.isRemote() || !filesystem.supportsFifo();
        Prepared prepared = new Prepared();
        Registrant registrant = new Registrant(registry, options.name(), options.lease().toMillis(),
                options.heartbeat().toMillis(), (long) (filesystem.lateSeconds() * 1000), options.fabrics(),
                policy.allowed());
        Registration registration = null;
        try {
            registration = registrant.register(generation -> prepared.prepare(options, registry, polling, generation));
            return new Runtime(new Context(options, registry, registration, policy, polling), prepared);
        } catch (PosixException | RuntimeException failure) {
            if (registration != null) {
                registration.remove();
            }
            prepared.release();
            throw failure instanceof RuntimeException known ? known
                    : new RootException("cannot wait on the bell of '" + options.name() + "': " + failure.getMessage());
        }
    }

    // --- its parts, for the node ---

    public Context context() {
        return context;
    }

    public Calls calls() {
        return parts.calls();
    }

    public Serving serving() {
        return parts.serving();
    }

    public Delivery delivery() {
        return parts.delivery();
    }

    public Introspection introspection() {
        return parts.introspection();
    }

    public Registrar registrar() {
        return registrar;
    }

    public Outbox outbox() {
        return outbox;
    }

    /** A service was registered: others may need this node at any time from now on. */
    public void serve() {
        parts.pool().serve();
    }

    /** Cuts all that goes to a target from now on; a size of 0 ends it (G-18). */
    public void cut(String target, int segmentSize, double parityRate) {
        parts.links().cut(target, segmentSize == 0 ? null : LargeSender.linkSplitter(segmentSize, parityRate));
    }

    /** A grant may have opened a lane that waits. */
    public void lookAgain() {
        protocol.lookAgain();
    }

    private void left(String name) {
        protocol.nodeLeft(name);
    }

    // --- the end ---

    /** Leaves in order; what is in flight gets some time. */
    public void stop(SpeedException reason, Duration drain) {
        if (context.failure() != null) {
            return; // the name was lost: everything has ended already
        }
        sayLeaving();
        protocol.stopAccepting();
        parts.delivery().leave();
        parts.pool().tasks().drain(drain.toNanos());
        parts.delivery().finishInHand();
        context.registration.remove();
        end(reason);
        sayLeft();
        parts.links().shut();
    }

    /** The name is lost: ends at once and writes nothing more. */
    private void abort(SpeedException reason) {
        end(reason);
        parts.links().shut();
        context.registration.abandon();
    }

    /** Stops all threads, fails all who wait, releases the lanes. */
    private void end(SpeedException reason) {
        context.fail(reason);
        context.pending.failAll(reason);
        parts.delivery().wakeReceivers();
        parts.pool().stop(READER_NANOS);
        registrar.stop();
        protocol.close();
        dispatch.close();
    }

    private void sayLeaving() {
        try {
            context.registration.update(now -> now.saying(Entry.LEAVING, now.allow(), now.subscriptions()));
        } catch (SpeedException error) {
            context.stats.count("heartbeats_failed"); // leaving goes on: correctness never depends on saying so
        }
    }

    /** Tells every node that this one wrote to and that still allows it; the registry tells the rest. */
    private void sayLeft() {
        byte[] notice = Control.encode(Map.of("op", "LEAVE"));
        for (OutgoingLink link : parts.links().all()) {
            try {
                Entry entry = context.registry.live(link.target);
                if (entry != null && entry.grants(context.name())) {
                    link.sendNotice(notice);
                }
            } catch (SpeedException undelivered) {
                context.stats.count("leave_notices_undelivered");
            }
        }
    }
}
