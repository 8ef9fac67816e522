package speed.internal.engine.link;

import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import speed.errors.AccessDeniedException;
import speed.errors.Execution;
import speed.errors.IdentityException;
import speed.errors.NodeLeftException;
import speed.errors.NodeStartingException;
import speed.errors.UnknownNodeException;
import speed.internal.core.Counters;
import speed.internal.core.LeastRecentlyUsed;
import speed.internal.core.Texts;
import speed.internal.engine.Context;
import speed.internal.segment.Splitter;
import speed.internal.wire.BoundLink.Bond;
import speed.internal.wire.Entry;
import speed.internal.wire.Names;

/** All outgoing links of a node, made on first use. Thread-safe. */
public final class Links {
    private static final long START_LOOK_NANOS = 20_000_000;

    private final Context context;
    private final Map<String, OutgoingLink> links = new ConcurrentHashMap<>();
    /** Links that hold files open; its monitor guards it. */
    private final LeastRecentlyUsed<String> awake;

    private final Map<String, Splitter> splitters = new ConcurrentHashMap<>();
    private volatile Consumer<OutgoingLink> opened = link -> {};
    private volatile boolean hasEnded;

    public Links(Context context) {
        this.context = context;
        awake = new LeastRecentlyUsed<>(context.mostLinks());
    }

    public void onOpen(Consumer<OutgoingLink> notice) {
        opened = notice;
    }

    /**
     * The link to a live node that serves this one, for calls: one that is starting is waited for, at most until the deadline.
     */
    public OutgoingLink serving(String target, long deadlineNanos) {
        return awaited(target, deadlineNanos, true);
    }

    /** The link to a live node that allows this one; while it starts, its grant is waited for until the deadline. */
    public OutgoingLink granted(String target, long deadlineNanos) {
        return awaited(target, deadlineNanos, false);
    }

    private OutgoingLink awaited(String target, long deadlineNanos, boolean serves) {
        while (isStarting(target, serves)) {
            if (System.nanoTime() >= deadlineNanos || context.awaitStop(START_LOOK_NANOS)) {
                context.checkOpen();
                NodeStartingException error = new NodeStartingException(Texts.starting(target));
                error.about(Execution.NOT_BEGUN);
                throw error;
            }
        }
        return granted(target);
    }

    /** Whether a node does not serve yet: what it does not grant while it starts is not final. */
    private boolean isStarting(String target, boolean serves) {
        Entry recent = context.registry.granting(target, context.name(), context.fingerprint());
        Entry entry = recent != null ? recent : context.registry.live(target);
        return entry != null && entry.isStarting() && (serves || !context.isGrantedBy(entry));
    }

    /** The same for what an observer may write too: it waits for no grant. */
    public OutgoingLink looking(String target, long deadlineNanos) {
        Entry entry = context.registry.live(target);
        boolean mayLook = entry != null && !entry.isLeaving() && entry.isObservedBy(context.name());
        return mayLook ? open(target, entry) : granted(target, deadlineNanos);
    }

    /** The link to a live node that allows this one; nothing is written before this returns. */
    public OutgoingLink granted(String target) {
        Entry recent = context.registry.granting(target, context.name(), context.fingerprint());
        if (recent != null && !recent.isLeaving()) {
            return open(target, recent);
        }
        Entry entry = context.registry.live(target);
        if (entry == null) {
            drop(target);
            throw new UnknownNodeException(context.registry.absence(target));
        }
        if (entry.isLeaving()) {
            throw new NodeLeftException(Texts.leaving(target));
        }
        if (!context.isGrantedBy(entry)) {
            context.stats.count(Counters.SENDS_DENIED);
            context.stats.refusedBy(target);
            throw new AccessDeniedException(Texts.notAllowed(target, context.name()));
        }
        return open(target, entry);
    }

    /** What is sent from now on opens for the identity of this entry alone. IdentityException. */
    private OutgoingLink open(String target, Entry entry) {
        OutgoingLink link = links.get(target);
        if (context.peers == null) {
            return open(target, entry.generation());
        }
        Bond bond = bond(link, target, entry, false); // before it is opened: who is refused has no link
        if (link == null || link.generation() < entry.generation()) {
            return open(target, entry.generation());
        }
        link.bind(bond);
        return link;
    }

    private Bond bond(OutgoingLink link, String target, Entry entry, boolean isAnswer) {
        Bond before = link == null ? null : link.bond();
        return context.peers == null ? null : context.peers.bond(target, entry, before, isAnswer);
    }

    /** The link to a target whatever it grants: for replies, to which the request gave the right. */
    public OutgoingLink open(String target, int generation) {
        OutgoingLink link = links.get(target);
        if (link != null && link.generation() >= generation) {
            return link;
        }
        Entry entry = context.registry.live(target);
        Bond bond = bond(link, target, entry, true); // who is refused has no link
        link = links.computeIfAbsent(
                target, name -> new OutgoingLink(context, name, splitters.get(name), this::used, this::makeSpace));
        if (hasEnded) { // looked at last: whoever ends the links sees this one, or was seen here
            link.shut();
        }
        link.meets(generation, entry, bond);
        return link;
    }

    /** A link is about to be used: those that were used longest ago rest for it. */
    private void used(OutgoingLink link) {
        List<String> oldest;
        synchronized (awake) {
            oldest = awake.use(link.target);
        }
        oldest.stream().map(links::get).filter(Objects::nonNull).forEach(OutgoingLink::rest);
        if (link.wake()) {
            opened.accept(link);
        }
    }

    /** Removes the free slots of the other links; whether there were any. */
    private boolean makeSpace(OutgoingLink full) {
        return links.values().stream()
                        .filter(link -> link != full)
                        .filter(OutgoingLink::giveSlotsBack)
                        .count()
                > 0;
    }

    /** Cuts all that goes to a target from now on; null ends it. */
    public void cut(String target, Splitter splitter) {
        if (splitter == null) {
            splitters.remove(target);
        } else {
            splitters.put(target, splitter);
        }
        OutgoingLink link = links.get(target);
        if (link != null) {
            link.cut(splitter);
        }
    }

    /** What cuts all that goes to a target; null where nothing does. */
    public Splitter splitter(String target) {
        return splitters.get(target);
    }

    /** Whether this process ever wrote to a node, so that answers may come from there. */
    public boolean knows(String name) {
        return links.containsKey(name);
    }

    private void drop(String target) {
        OutgoingLink link = links.get(target);
        if (link != null) {
            link.rest();
        }
    }

    /** What is done about once a lease: files that are of no use any more are closed, and removed. */
    public void tidy() {
        closeGone();
        links.values().forEach(OutgoingLink::releaseSlots);
    }

    /**
     * Heeds cards that were renewed, and closes the files of links to nodes that are gone. A link that was only ever for one life of an ephemeral target
     * is forgotten, once the cursors of that life are gone with its directory: should the name come back, another key
     * begins with it, and a sequence that begins anew.
     */
    private void closeGone() {
        for (OutgoingLink link : links.values()) {
            Entry entry = context.registry.live(link.target);
            if (entry != null) {
                lookAtCard(link, entry);
                continue;
            }
            synchronized (awake) {
                awake.rest(link.target);
            }
            if (link.isOfOneLife() && leftNothing(link.target)) {
                links.remove(link.target, link);
            }
            link.rest();
        }
    }

    /** For links that only answer: nobody looks at the entry of their target before. */
    private void lookAtCard(OutgoingLink link, Entry entry) {
        if (context.peers == null || entry.generation() != link.generation()) {
            return;
        }
        try {
            link.bind(bond(link, link.target, entry, true));
        } catch (IdentityException another) {
            // who may not have it is refused elsewhere
        }
    }

    private boolean leftNothing(String target) {
        Path directory = Path.of(Names.nodeDirectory(context.options.root(), target));
        return Files.notExists(directory, LinkOption.NOFOLLOW_LINKS);
    }

    public Collection<OutgoingLink> all() {
        return links.values();
    }

    /** Whoever still writes is refused from now on: the name is about to be given up. */
    public void end() {
        hasEnded = true;
        links.values().forEach(OutgoingLink::end);
    }

    /** Ends all links for good. */
    public void shut() {
        end();
        links.values().forEach(OutgoingLink::shut);
    }
}
