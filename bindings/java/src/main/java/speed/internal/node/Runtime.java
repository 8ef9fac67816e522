package speed.internal.node;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.function.Supplier;
import speed.errors.ConfigurationException;
import speed.errors.DurabilityException;
import speed.errors.NodeClosedException;
import speed.errors.RootException;
import speed.errors.SpeedException;
import speed.internal.core.AccessPolicy;
import speed.internal.core.Counters;
import speed.internal.core.Log;
import speed.internal.engine.Context;
import speed.internal.engine.Introspection;
import speed.internal.engine.LogLimiter;
import speed.internal.engine.MessageProtection;
import speed.internal.engine.NodeState;
import speed.internal.engine.PeerIdentities;
import speed.internal.engine.call.CallStreams;
import speed.internal.engine.call.Calls;
import speed.internal.engine.call.Retries;
import speed.internal.engine.deliver.DeadLetterBox;
import speed.internal.engine.deliver.Delivery;
import speed.internal.engine.deliver.Failures;
import speed.internal.engine.link.Links;
import speed.internal.engine.link.OutgoingLink;
import speed.internal.engine.remote.Families;
import speed.internal.engine.remote.LargeSender;
import speed.internal.engine.remote.PeerLookup;
import speed.internal.engine.send.Outbox;
import speed.internal.engine.send.Publishing;
import speed.internal.engine.serve.Answers;
import speed.internal.engine.serve.Serving;
import speed.internal.engine.threads.Futures;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.fs.Bell;
import speed.internal.fs.Claiming.WonClaim;
import speed.internal.fs.Fences;
import speed.internal.fs.Filesystem;
import speed.internal.fs.Inbox;
import speed.internal.fs.KeyFiles.KeySource;
import speed.internal.fs.ObserverFile;
import speed.internal.fs.PosixException;
import speed.internal.fs.Registrant;
import speed.internal.fs.Registration;
import speed.internal.fs.Registry;
import speed.internal.node.Dispatch.Parts;
import speed.internal.node.Protocol.Reader;
import speed.internal.wire.Control;
import speed.internal.wire.Entry;
import speed.internal.wire.Hosts;
import speed.internal.wire.Names;
import speed.internal.wire.NodeId;
import speed.options.NodeOptions;

/** One running node: its parts, and the order in which they start and stop. */
public final class Runtime {
    private static final Log LOG = new Log("speed.registry");
    private static final long READER_NANOS = 5_000_000_000L;

    private final Parts parts;
    private final Context context;
    private final Dispatch dispatch;
    private final Protocol protocol;
    private final Registrar registrar;
    private final Sweeper sweeper;
    private final Outbox outbox;
    private final Reader reader;
    private final PeerLookup peers;
    private final Retries retries;

    /** What is made between winning a claim and publishing the entry: nobody can see the node yet. */
    private static final class Prepared {
        private Inbox inbox;
        private Bell bell;

        void prepare(
                NodeOptions options,
                Registry registry,
                PeerIdentities peers,
                boolean polling,
                Filesystem filesystem,
                WonClaim won) {
            try {
                inbox = new Inbox(
                        options.root(), options.name(), won.generation(), registry.keyring(), options.ephemeral());
                if (peers != null) {
                    inbox.ownedBy(peers::own);
                }
                inbox.late(filesystem.lateSeconds());
                if (filesystem.isRemote()) {
                    inbox.neverSeal();
                }
                inbox.judgeSenders(registry::isWriting);
                inbox.prepare();
                if (won.former() > 0) {
                    Fences.set(options.root(), options.name(), won.generation(), registry.keyring());
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
        sweeper = new Sweeper(context);
        registrar = new Registrar(context, this::lost, pool::submit, sweeper);
        registrar.start(); // first of all: making the other parts may take longer than the lease on a busy machine
        Futures futures = new Futures(context.name());
        LogLimiter lines = new LogLimiter();
        Links links = new Links(context);
        Serving serving = new Serving(context, pool, new Answers(context, links, pool));
        MessageProtection messages = new MessageProtection(context.name(), context.options.security(), lines);
        DeadLetterBox letters = new DeadLetterBox(context);
        Failures failures = new Failures(context, pool, letters, lines);
        Calls calls = new Calls(context, links, pool, futures);
        parts = new Parts(
                context,
                links,
                calls,
                new CallStreams(context, links, pool, calls),
                serving,
                new Delivery(context, pool, messages, failures, lines),
                new Introspection(context, serving.services, pool),
                pool,
                futures);
        dispatch = new Dispatch(parts, letters, this::left);
        protocol = new Protocol(context, prepared.bell, prepared.inbox, dispatch);
        LargeSender large = new LargeSender(context, links, parts.calls(), pool);
        peers = new PeerLookup(links, parts.calls(), large, messages, pool, families());
        retries = new Retries(context, pool, futures);
        outbox = new Outbox(context, peers, new Publishing(context, links, large, pool), messages);
        parts.introspection().about(protocol.lanes());
        context.onWakeBy(protocol::wakeBy);
        context.onUnheard(protocol::unheard);
        context.onLaneRemoved(sweeper::heard);
        links.onOpen(protocol::watchReader);
        sweeper.onLease(links::tidy);
        if (Files.isDirectory(Path.of(Names.segmentsDirectory(context.options.root(), context.name())))) {
            dispatch.segments();
        }
        reader = new Reader(context.name(), protocol);
    }

    /** All parts are there: reading begins, unless the lease was lost meanwhile. */
    private Runtime run() {
        registrar.renewAtOnce();
        if (!context.state.open()) {
            context.checkOpen();
        }
        registrar.notice(parts.serving()::callers, this::left, (name, generation) -> {
            if (parts.calls().hasOlder(name, generation)) {
                protocol.nodeLeft(name);
            }
            parts.serving().forget(name, generation);
        });
        reader.start();
        return this;
    }

    /** Checks everything, claims the name, publishes the entry, starts the threads. */
    public static Runtime start(NodeOptions options) {
        Names.checkNode(options.name());
        AccessPolicy policy = new AccessPolicy(Hosts.localGrants(options.allow()));
        Registry.check(options.root()); // before the key: why that is out of reach is told by the root
        KeySource keys = new KeySource(options.key());
        PeerIdentities peers =
                options.identity() == null ? null : new PeerIdentities(options.root(), options.identity(), policy);
        PeerIdentities.checkGrants(policy, peers);
        Registry registry = new Registry(options.root(), keys.keyring());
        registry.prepare();
        try {
            policy.observe(ObserverFile.read(options.root()));
        } catch (ConfigurationException nobody) {
            LOG.warn("{}", nobody.getMessage());
        }
        Runnable checkNotCopied = () -> {
            if (peers != null) {
                peers.checkNotCopied(options.name(), registry.liveEntries());
            }
        };
        checkNotCopied.run();
        Filesystem filesystem = Filesystem.of(options.root());
        checkDurable(options, filesystem);
        boolean polling = options.polling() || filesystem.isRemote() || !filesystem.supportsFifo();
        Prepared prepared = new Prepared();
        Registrant registrant = new Registrant(
                registry,
                options.name(),
                options.lease().toMillis(),
                options.heartbeat().toMillis(),
                (long) (filesystem.lateSeconds() * 1000),
                options.fabrics(),
                policy,
                options.ephemeral(),
                options.starting(),
                peers == null ? "" : peers.card(options.name()));
        Registration registration = null;
        Context context = null;
        try {
            registration = registrant.register(
                    won -> prepared.prepare(options, registry, peers, polling, filesystem, won),
                    checkNotCopied); // of two that start at once, each sees the other by now
            context = new Context(options, keys, registry, registration, policy, peers, polling);
            return new Runtime(context, prepared).run();
        } catch (PosixException | RuntimeException failure) {
            if (context != null) {
                context.state.end(() -> new NodeClosedException("node '" + options.name() + "' did not start"));
            }
            if (registration != null) {
                registration.remove();
            }
            prepared.release();
            throw failure instanceof RuntimeException known
                    ? known
                    : new RootException("cannot wait on the bell of '" + options.name() + "': " + failure.getMessage());
        }
    }

    private static void checkDurable(NodeOptions options, Filesystem filesystem) {
        if (options.durable() && filesystem.isMemory()) {
            throw new DurabilityException(options.root()
                    + " lies in memory: it cannot survive a power cut; use a root on a disk, or not durable()");
        }
    }

    // --- its parts, for the node ---

    public Context context() {
        return context;
    }

    public Calls calls() {
        return parts.calls();
    }

    CallStreams streams() {
        return parts.streams();
    }

    Retries retries() {
        return retries;
    }

    private Families families() {
        Families[] itself = new Families[1];
        itself[0] = new Families(context, () -> {
            registrar.onJoin(entry -> itself[0].note());
            registrar.onLeave(entry -> itself[0].note());
        });
        return itself[0];
    }

    public PeerLookup peers() {
        return peers;
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

    /** Waits for another node; a worker's place is given to others meanwhile. */
    public <T> T blocking(Supplier<T> waiting) {
        return parts.pool().blocking(waiting);
    }

    /** A grant may have opened a lane that waits. */
    public void lookAgain() {
        protocol.lookAgain();
    }

    private void left(String name) {
        protocol.nodeLeft(name);
        sweeper.heard(name);
    }

    // --- the end ---

    /**
     * Leaves in order, unless it does already or has ended; what is in flight gets some time, but for the work that this is
     * called from.
     *
     * @param reason what the program is told from then on
     */
    public void stop(Supplier<SpeedException> reason, Duration drain) {
        if (!context.state.leave()) {
            return;
        }
        sayLeaving();
        parts.pool().leave();
        parts.pool().drain(drain.toNanos());
        parts.delivery().finishInHand();
        parts.serving().refuseWaiting(parts.pool().stop());
        parts.serving().cancelRunning();
        end(reason);
        parts.links().end();
        if (context.options.ephemeral()) {
            context.registration.expire();
        } else {
            context.registration.remove();
        }
        protocol.releaseBell();
        sayLeft();
        parts.links().shut();
        if (context.options.ephemeral()) {
            sweeper.forgetItself();
        }
    }

    /** The lease is lost: before all parts are made the start fails, later the node ends. */
    private void lost(Supplier<SpeedException> reason) {
        if (context.state.end(reason) != NodeState.Phase.STARTING) {
            abort(reason);
        }
    }

    /** The name is lost: ends at once and writes nothing more. */
    private void abort(Supplier<SpeedException> reason) {
        end(reason);
        protocol.releaseBell();
        parts.links().shut();
        context.registration.abandon();
        protocol.releaseBell();
    }

    /**
     * Stops all threads, fails all who wait, releases the lanes. The name is given up after that: from then on a
     * successor may read the same lanes, and fences off what this node writes.
     */
    private void end(Supplier<SpeedException> reason) {
        context.state.end(reason);
        parts.pool().stop();
        parts.serving().cancelRunning();
        parts.futures().stop();
        context.pending.failAll(reason);
        reader.end(READER_NANOS);
        registrar.stop();
        protocol.close();
        dispatch.close();
    }

    private void sayLeaving() {
        try {
            context.registration.update(now -> now.publishing(now.published().with(Entry.LEAVING)));
        } catch (SpeedException error) {
            context.stats.count(Counters.HEARTBEATS_FAILED); // leaving goes on: correctness never depends on saying so
        }
    }

    /** Tells every node that this one wrote to and that still allows it; the registry tells the rest. */
    private void sayLeft() {
        byte[] notice = Control.encode(Map.of("op", "LEAVE"));
        for (OutgoingLink link : parts.links().all()) {
            try {
                Entry entry = context.registry.live(link.target);
                if (entry != null && context.isGrantedBy(entry)) {
                    link.sendNotice(notice);
                }
            } catch (SpeedException undelivered) {
                context.stats.count(Counters.LEAVE_NOTICES_UNDELIVERED);
            }
        }
    }
}
