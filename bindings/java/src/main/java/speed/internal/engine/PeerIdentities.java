package speed.internal.engine;

import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import speed.errors.ConfigurationException;
import speed.errors.IdentityChangedException;
import speed.errors.IdentityCopiedException;
import speed.errors.IdentityException;
import speed.errors.IdentityExpiredException;
import speed.errors.IdentityMissingException;
import speed.errors.IdentityRevokedException;
import speed.errors.IdentityUnvouchedException;
import speed.errors.KeyFileException;
import speed.errors.WireException;
import speed.internal.GuardedBy;
import speed.internal.core.AccessPolicy;
import speed.internal.core.Log;
import speed.internal.fs.KeyFiles.IdentitySource;
import speed.internal.fs.KnownIdentities;
import speed.internal.wire.BoundLink.Bond;
import speed.internal.wire.Card;
import speed.internal.wire.Entry;
import speed.internal.wire.Evidence;
import speed.internal.wire.Evidence.KnownIdentity;
import speed.internal.wire.Evidence.Verdict;
import speed.internal.wire.NodeId;
import speed.internal.wire.NodeIdentity;
import speed.internal.wire.Statement;

/** The identity of a node, and its verdicts on those of others. Thread-safe. */
public final class PeerIdentities {
    private static final Log LOG = new Log("speed.protocol");
    /** How long a verdict stands before statements are looked at again. */
    private static final long BELIEVED_NANOS = 1_000_000_000;

    private static final int MOST_VERDICTS = 1024;

    private record Asked(String name, String fingerprint, Collection<String> grants) {}

    private record Judged(Verdict verdict, long until) {}

    private final IdentitySource source;
    private final String fingerprint;
    private final String root;
    private final AccessPolicy policy;
    private final KnownIdentities known;
    private final Map<Asked, Judged> verdicts = new ConcurrentHashMap<>();

    @GuardedBy("this")
    private final Set<String> warned = new HashSet<>();

    /** Of the node of an identity file. KeyFileException. */
    public PeerIdentities(String root, String path, AccessPolicy policy) {
        source = new IdentitySource(path);
        fingerprint = own().fingerprint();
        this.root = root;
        this.policy = policy;
        known = new KnownIdentities(path);
    }

    /** The identity of this node as it is now; another object once its keys or owners are others. */
    public NodeIdentity own() {
        return source.now();
    }

    /** Takes keys and owners that changed in the file; what is wrong with it, else null. */
    public String look() {
        return source.look();
    }

    /** The card of this node, for its entry. */
    public String card(String name) {
        return Card.encode(own(), NodeId.of(name));
    }

    /** What names it. */
    public String fingerprint() {
        return fingerprint;
    }

    /** ConfigurationException for grants of identities that a node could not tell, since it has none (null). */
    public static void checkGrants(AccessPolicy policy, PeerIdentities peers) {
        if (peers == null && !policy.identities().isEmpty()) {
            throw new ConfigurationException(
                    "a grant with a fingerprint needs a node with an identity: give its builder identity(path)");
        }
    }

    /** IdentityCopiedException where another of these nodes lives with this identity. */
    public void checkNotCopied(String name, List<Entry> live) {
        for (Entry entry : live) {
            if (!entry.name().equals(name) && Card.fingerprintIn(entry).equals(fingerprint)) {
                throw new IdentityCopiedException(
                        "'" + entry.name() + "' lives with this identity: make one for each node");
            }
        }
    }

    /**
     * What a link to a node is sealed by; null where neither side is to have an identity. IdentityException.
     *
     * @param entry of the node; null where it has none
     * @param before what the link is sealed by so far, null for nothing
     * @param isAnswer nothing is remembered of who has no grant
     */
    public Bond bond(String name, Entry entry, Bond before, boolean isAnswer) {
        boolean isMet = !isAnswer || policy.allows(name);
        String card = entry == null ? "" : entry.identity();
        if (card.isEmpty()) {
            check(name, "", isMet);
            return null;
        }
        Bond bond = before != null && before.card().equals(card) && before.own() == own() ? before : bond(name, card);
        check(name, bond.to().fingerprint(), isMet);
        return bond;
    }

    private Bond bond(String name, String card) {
        try {
            return Bond.of(own(), card, NodeId.of(name));
        } catch (WireException refused) {
            throw new IdentityException("the card of '" + name + "' cannot be used: " + refused.getMessage());
        }
    }

    private void check(String name, String shown, boolean isMet) {
        String of = "'" + name + "' ";
        String end = (shown.isEmpty() ? "" : ": " + shown) + "; nothing was written to it";
        switch (verdict(name, shown, isMet)) {
            case CHANGED ->
                throw new IdentityChangedException(of + "has another identity than the one that is known" + end);
            case REVOKED -> throw new IdentityRevokedException(of + "has an identity that was revoked" + end);
            case EXPIRED ->
                throw new IdentityExpiredException(
                        of + "has an identity that was vouched for until a time that has passed" + end);
            case UNVOUCHED ->
                throw new IdentityUnvouchedException(of + "has an identity that no owner vouches for" + end);
            case MISSING ->
                throw new IdentityMissingException(of + "comes without the identity that it is to have" + end);
            default -> {}
        }
    }

    /**
     * ACCEPTED, or why not. The fingerprint is empty for no identity.
     *
     * @param isMet who is accepted at first use is remembered
     */
    public Verdict verdict(String name, String shown, boolean isMet) {
        Asked asked = new Asked(name, shown, policy.fingerprints(name));
        Judged judged = verdicts.get(asked);
        boolean isBelieved = judged != null && System.nanoTime() - judged.until < 0;
        boolean isKnown = isBelieved && !(isMet && judged.verdict == Verdict.FIRST);
        Verdict verdict = isKnown ? judged.verdict : judge(asked, isMet);
        return verdict == Verdict.FIRST ? Verdict.ACCEPTED : verdict;
    }

    private synchronized Verdict judge(Asked asked, boolean isMet) {
        Verdict verdict = judgeNow(asked, isMet);
        if (verdicts.size() >= MOST_VERDICTS) {
            verdicts.clear(); // names come from others: they must not fill our memory
        }
        verdicts.put(asked, new Judged(verdict, System.nanoTime() + BELIEVED_NANOS));
        return verdict;
    }

    /** FIRST where it would be accepted at first use, and is not met. */
    @GuardedBy("this")
    private Verdict judgeNow(Asked asked, boolean isMet) {
        List<String> owners = own().owners();
        KnownIdentity before = known.of(asked.name);
        Statement stated = owners.isEmpty() ? null : KnownIdentities.statement(root, asked.name, owners);
        Evidence evidence =
                new Evidence(asked.grants, before, stated, !owners.isEmpty(), System.currentTimeMillis() / 1000);
        Verdict verdict = evidence.judge(asked.fingerprint);
        if (verdict == Verdict.FIRST && !isMet) {
            return verdict;
        }
        KnownIdentity learnt = evidence.learnt(asked.fingerprint, verdict);
        boolean isKept = learnt == null || isRemembered(asked.name, learnt);
        if (verdict != Verdict.FIRST) {
            return verdict;
        }
        return isKept ? Verdict.ACCEPTED : Verdict.UNVOUCHED; // nobody is met first who cannot be remembered
    }

    /** False where it cannot be kept; why is said once. */
    @GuardedBy("this")
    private boolean isRemembered(String name, KnownIdentity learnt) {
        String why = "too many identities are known";
        try {
            if (known.remember(name, learnt)) {
                return true;
            }
        } catch (KeyFileException error) {
            why = error.getMessage();
        }
        if (warned.add(why)) {
            LOG.warn("the identity of {} is not remembered: {}", name, why);
        }
        return false;
    }
}
