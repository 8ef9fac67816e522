package speed.internal.core;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;
import speed.internal.wire.Limits;

/**
 * The slot to take for a large payload.
 *
 * @param number the slot
 * @param fileBytes how long it has to be
 * @param removed free ones that go before, in this order
 */
public record SlotChoice(int number, long fileBytes, List<Integer> removed) {
    /** A slot is used as it is for a payload that needs at least one in so many of its bytes. */
    private static final int MOST_TIMES = 2;

    /**
     * The slot for a payload that needs so many bytes; null if all are in use.
     *
     * @param free file sizes of the free slots by their numbers
     * @param used numbers that cannot be taken
     * @param room what the window leaves for all free slots together with the one that is taken
     */
    public static SlotChoice of(Map<Integer, Long> free, Set<Integer> used, long needed, long room) {
        SlotChoice best = best(free, used, needed);
        if (best == null) {
            return null;
        }
        Map<Integer, Long> others = new TreeMap<>(free);
        others.remove(best.number);
        List<Integer> removed = excess(others, room - best.fileBytes);
        others.keySet().removeAll(removed);
        return new SlotChoice(best.number, best.fileBytes + sum(others) <= room ? best.fileBytes : needed, removed);
    }

    private static SlotChoice best(Map<Integer, Long> free, Set<Integer> used, long needed) {
        NavigableMap<Long, Integer> bySize = new TreeMap<>();
        new TreeMap<>(free).forEach((number, size) -> bySize.putIfAbsent(size, number));
        Map.Entry<Long, Integer> longEnough = bySize.ceilingEntry(needed);
        if (longEnough != null && longEnough.getKey() <= MOST_TIMES * needed) {
            return new SlotChoice(longEnough.getValue(), longEnough.getKey(), List.of());
        }
        Map.Entry<Long, Integer> shorter = bySize.lowerEntry(needed);
        if (shorter != null) {
            return new SlotChoice(shorter.getValue(), needed, List.of());
        }
        for (int number = 1; number <= Limits.MAX_SLOTS; number++) {
            if (!free.containsKey(number) && !used.contains(number)) {
                return new SlotChoice(number, needed, List.of());
            }
        }
        return bySize.isEmpty() ? null : new SlotChoice(bySize.firstEntry().getValue(), needed, List.of());
    }

    /** The free slots to remove until the others take no more than so many bytes: the longest first. */
    public static List<Integer> excess(Map<Integer, Long> free, long room) {
        List<Map.Entry<Integer, Long>> longestFirst = new ArrayList<>(new TreeMap<>(free).entrySet());
        longestFirst.sort(Map.Entry.<Integer, Long>comparingByValue(Comparator.reverseOrder()));
        List<Integer> removed = new ArrayList<>();
        long total = sum(free);
        for (Map.Entry<Integer, Long> one : longestFirst) {
            if (total <= room) {
                break;
            }
            removed.add(one.getKey());
            total -= one.getValue();
        }
        return removed;
    }

    private static long sum(Map<Integer, Long> slots) {
        return slots.values().stream().mapToLong(Long::longValue).sum();
    }
}
