package speed.internal.engine.remote;

import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Stream;
import speed.errors.AccessDeniedException;
import speed.errors.Execution;
import speed.errors.SpeedException;
import speed.errors.UnknownNodeException;
import speed.internal.GuardedBy;
import speed.internal.core.Family;
import speed.internal.core.Family.Member;
import speed.internal.engine.Context;
import speed.internal.engine.call.Members;
import speed.internal.wire.Entry;
import speed.internal.wire.Names;

/** Families of nodes that offer one service: who is there, and what each has under way (S-40). Thread-safe. */
public final class Families {
    /** Joins and leaves are told at once; a grant is seen after this. */
    private static final long MAX_AGE_NANOS = 1_000_000_000L;

    private final Context context;
    private final Runnable watch;
    private volatile boolean changed = true;

    @GuardedBy("this")
    private boolean watches;

    @GuardedBy("this")
    private long lookedAt;

    @GuardedBy("this")
    private List<Entry> entries = List.of();

    @GuardedBy("this")
    private final Map<String, Integer> underWay = new HashMap<>();

    /** Of each family, the member that was chosen last. */
    @GuardedBy("this")
    private final Map<String, String> last = new HashMap<>();

    /** Who was found gone, until when that is kept: its entry may be there a moment longer. */
    @GuardedBy("this")
    private final Map<Member, Long> left = new HashMap<>();

    /**
     * For one node.
     *
     * @param watch has {@link #note} called when another node joins or leaves; run once, when a family is first called
     */
    public Families(Context context, Runnable watch) {
        this.context = context;
        this.watch = watch;
    }

    /** Another node joined or left. */
    public void note() {
        changed = true;
    }

    /** The members that may be asked, by name. */
    Map<String, Member> able(String family) {
        return byName(members(family).filter(context::isGrantedBy));
    }

    /** Those that are starting: a call waits for the one it asks, and for its grant. */
    private Map<String, Member> starting(String family) {
        return byName(present(family).filter(Entry::isStarting));
    }

    private static Map<String, Member> byName(Stream<Entry> found) {
        Map<String, Member> members = new LinkedHashMap<>();
        found.forEach(entry -> members.put(entry.name(), new Member(entry.name(), entry.generation())));
        return members;
    }

    private Stream<Entry> members(String family) {
        return present(family).filter(entry -> !entry.isStarting());
    }

    private Stream<Entry> present(String family) {
        return entries().stream().filter(entry -> !entry.isLeaving() && Names.matches(family, entry.name()));
    }

    private List<Entry> entries() {
        synchronized (this) {
            if (!changed && System.nanoTime() - lookedAt <= MAX_AGE_NANOS) {
                return entries;
            }
            if (!watches) {
                watches = true;
                watch.run();
            }
        }
        changed = false; // before: what changes while it is read is read again
        List<Entry> found = context.registry.surelyLiveEntries();
        synchronized (this) {
            entries = found;
            lookedAt = System.nanoTime();
        }
        return found;
    }

    private String take(String family, String key, Set<Member> tried, boolean mayWait) {
        Map<String, Member> rest = untried(able(family), tried);
        if (rest.isEmpty()) {
            changed = true; // one may have joined just now
            rest = untried(able(family), tried);
        }
        if (rest.isEmpty() && mayWait) {
            rest = untried(starting(family), tried);
        }
        if (rest.isEmpty()) {
            throw nobody(family);
        }
        String chosen = choose(family, key, List.copyOf(rest.keySet()));
        tried.add(rest.get(chosen));
        return chosen;
    }

    private synchronized Map<String, Member> untried(Map<String, Member> members, Set<Member> tried) {
        long now = System.nanoTime();
        left.values().removeIf(until -> until - now <= 0);
        members.values().removeIf(one -> tried.contains(one) || left.containsKey(one));
        return members;
    }

    private synchronized String choose(String family, String key, List<String> names) {
        String before = last.get(family);
        String chosen = Family.chosen(names, underWay, before == null ? any(names) : before, key);
        underWay.merge(chosen, 1, Integer::sum);
        if (key == null) {
            last.put(family, chosen);
        }
        return chosen;
    }

    /** Anyone, so that callers do not all begin with the same. */
    private static String any(List<String> names) {
        return names.get(ThreadLocalRandom.current().nextInt(names.size()));
    }

    /** A call of that member ended. */
    synchronized void ended(String member) {
        underWay.computeIfPresent(member, (name, calls) -> calls == 1 ? null : calls - 1);
    }

    private synchronized void left(Member member) {
        left.put(member, System.nanoTime() + MAX_AGE_NANOS);
    }

    /** Why no member can be asked. */
    SpeedException nobody(String family) {
        List<Entry> group = members(family).toList();
        SpeedException error;
        if (!group.isEmpty() && able(family).isEmpty()) {
            String caller = context.name();
            error = new AccessDeniedException("'" + group.get(0).name() + "' does not allow '" + caller
                    + "', nor does another node of '" + family + "'; their owner must allow '" + caller + "'");
        } else {
            error = new UnknownNodeException("no node of '" + family + "' is there: start one, or see `speed nodes`");
        }
        error.about(Execution.NOT_BEGUN);
        return error;
    }

    /** The members that one call asks, one after the other. For one thread at a time. */
    final class Walk implements Members {
        private final String family;
        private final String key;
        private final Set<Member> tried = new HashSet<>();
        private SpeedException error;

        Walk(String family, String key) {
            this.family = family;
            this.key = key;
        }

        /** The next one; throws the error of the last one where there is no other. */
        @Override
        public String take() {
            return take(true);
        }

        /** The same; of those that serve alone, unless one that is starting may be waited for. */
        String take(boolean mayWait) {
            try {
                return Families.this.take(family, key, tried, mayWait);
            } catch (UnknownNodeException | AccessDeniedException nobody) {
                throw error == null ? nobody : error;
            }
        }

        /** That member did not begin it. Throws {@code failure} where it is final. */
        @Override
        public void failed(SpeedException failure, String member) {
            failure.about(member, failure.service());
            if (!Family.passesOn(failure.code(), failure.execution())) {
                throw failure;
            }
            error = failure;
            if (Family.isGone(failure.code())) {
                tried.stream().filter(one -> one.name().equals(member)).forEach(Families.this::left);
            }
        }

        @Override
        public void ended(String member) {
            Families.this.ended(member);
        }
    }
}
