package speed.internal.engine.remote;

import java.util.function.BooleanSupplier;
import speed.CallRequest;
import speed.errors.ConfigurationException;
import speed.internal.core.Family;
import speed.internal.engine.MessageProtection;
import speed.internal.engine.call.Calls;
import speed.internal.engine.call.Members;
import speed.internal.engine.link.Links;
import speed.internal.engine.threads.WorkerPool;
import speed.internal.wire.Hosts;
import speed.internal.wire.Names;
import speed.options.CallOptions;

/** Finds who is meant by a name: the only place that tells nodes of this root, families of them, and those of other hosts. Thread-safe. */
public final class PeerLookup {
    private final Links links;
    private final Calls calls;
    private final LargeSender large;
    private final MessageProtection messages;
    private final WorkerPool pool;
    private final Families families;

    public PeerLookup(
            Links links,
            Calls calls,
            LargeSender large,
            MessageProtection messages,
            WorkerPool pool,
            Families families) {
        this.links = links;
        this.calls = calls;
        this.large = large;
        this.messages = messages;
        this.pool = pool;
        this.families = families;
    }

    /** {@code billing}, or {@code billing@hostb}; whether there is such a node shows when it is used. */
    public Peer of(String target) {
        return of(target, null);
    }

    /** Whom a stream may be served by. */
    public Members members(String target, String key) {
        if (Hosts.isRemote(target)) {
            throw new ConfigurationException(
                    "'" + target + "' is no node of this host: streams and progress go to one");
        }
        if (Family.isFamily(target)) {
            return families.new Walk(Names.checkGrant(target), key);
        }
        checkKeyless(key);
        return Members.of(target);
    }

    /** The result of whoever of a family answers first: a second member is asked after a time, if that may be. */
    public Object hedged(CallRequest request, BooleanSupplier mayHedge) {
        return pool.blocking(() -> {
            PassingCall call = passing(request);
            if (!call.hasEndedWithin(request.options().retry().hedge()) && mayHedge.getAsBoolean()) {
                call.askAnother();
            }
            return call.result();
        });
    }

    /** A call of a family that may be made to a second member beside the first; ConfigurationException for one node. */
    public PassingCall passing(CallRequest request) {
        if (!Family.isFamily(request.target())) {
            throw new ConfigurationException("a hedge asks another node of a family: call one, such as 'pricing.*'");
        }
        CallOptions options = request.options();
        return new FamilyPeer(families, this::of, Names.checkGrant(request.target()), options.key())
                .passing(request.service(), request.arguments(), options.timeout(), options.traceparent());
    }

    private static void checkKeyless(String key) {
        if (key != null) {
            throw new ConfigurationException(
                    "a key chooses among the nodes of a family: name one, such as 'pricing.*'");
        }
    }

    /** Likewise; of a family, {@code pricing.*}, what has the same key goes to the same node. */
    public Peer of(String target, String key) {
        if (Family.isFamily(target)) {
            return new FamilyPeer(families, this::of, Names.checkGrant(target), key);
        }
        checkKeyless(key);
        return Hosts.isRemote(target)
                ? new GatewayPeer(calls, messages, target)
                : new LocalPeer(links, calls, large, messages, pool, target);
    }
}
