package speed.internal.core;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;

/** Which of many hold files open, in the order of their last use. Not thread-safe. */
public final class LeastRecentlyUsed<K> {
    private final int most;
    private final Set<K> keys = new LinkedHashSet<>();
    /** Who is used again at once stands where it belongs. */
    private K newest;

    public LeastRecentlyUsed(int most) {
        this.most = most;
    }

    public boolean contains(K key) {
        return keys.contains(key);
    }

    public void forEach(Consumer<K> take) {
        keys.forEach(take);
    }

    /** One is used now: those that were used longest ago, to be put to rest for it. */
    public List<K> use(K key) {
        if (key.equals(newest)) {
            return List.of();
        }
        newest = key;
        keys.remove(key);
        keys.add(key);
        List<K> oldest = new ArrayList<>(0);
        for (Iterator<K> each = keys.iterator(); keys.size() > most; ) {
            oldest.add(each.next());
            each.remove();
        }
        return oldest;
    }

    /** One holds nothing open any more. */
    public void rest(K key) {
        newest = key.equals(newest) ? null : newest;
        keys.remove(key);
    }
}
