package speed.internal.engine.remote;

import speed.internal.engine.MessageProtection;
import speed.internal.engine.call.Calls;
import speed.internal.engine.link.Links;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.wire.Hosts;

/** Finds who is meant by a name: the only place that tells nodes of this root from those of other hosts. Thread-safe. */
public final class PeerLookup {
    private final Links links;
    private final Calls calls;
    private final LargeSender large;
    private final MessageProtection messages;
    private final WorkerPool pool;

    public PeerLookup(Links links, Calls calls, LargeSender large, MessageProtection messages, WorkerPool pool) {
        this.links = links;
        this.calls = calls;
        this.large = large;
        this.messages = messages;
        this.pool = pool;
    }

    /** {@code billing}, or {@code billing@hostb}; whether there is such a node shows when it is used. */
    public Peer of(String target) {
        return Hosts.isRemote(target)
                ? new GatewayPeer(calls, messages, target)
                : new LocalPeer(links, calls, large, messages, pool, target);
    }
}
