package speed.internal.fs;

import java.io.IOException;
import java.nio.file.ClosedWatchServiceException;
import java.nio.file.Path;
import java.nio.file.StandardWatchEventKinds;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import speed.errors.StorageException;
import speed.internal.core.Counters;
import speed.internal.core.Log;
import speed.internal.core.RegistryView;
import speed.internal.wire.Names;

/**
 * Watches the registry for joins and leaves from a thread of its own. Creations, moves and deletions are hints;
 * a scan after the watch is set, and one on a timer, find the rest. Polls where the watch cannot be had.
 */
public final class RegistryWatch {
    private static final Log LOG = new Log("speed.registry");
    private static final long SCAN_MS = 1000;
    private static final long POLL_MS = 250;

    private final Registry registry;
    private final Consumer<RegistryView.Event> changed;
    private final Consumer<String> counts;
    private final RegistryView view = new RegistryView();
    private final WatchService hints;
    private final Thread thread;

    /**
     * Sets the watch, takes the first reading without telling of it, starts the thread; StorageException where the
     * registry cannot be listed. Later the last reading counts while that fails.
     */
    public RegistryWatch(
            Registry registry, String threadName, Consumer<RegistryView.Event> changed, Consumer<String> counts) {
        this.registry = registry;
        this.changed = changed;
        this.counts = counts;
        hints = watch(Names.registryDirectory(registry.root()));
        try {
            view.update(registry.surelyLiveEntries());
        } catch (StorageException unseen) {
            close(hints);
            throw unseen;
        }
        if (hints == null) {
            counts.accept(Counters.REGISTRY_POLLED);
        }
        thread = new Thread(this::run, threadName);
        thread.setDaemon(true);
        thread.start();
    }

    private static WatchService watch(String directory) {
        Path path = Path.of(directory);
        WatchService service = null;
        try {
            service = path.getFileSystem().newWatchService();
            path.register(service, StandardWatchEventKinds.ENTRY_CREATE, StandardWatchEventKinds.ENTRY_DELETE);
            return service;
        } catch (IOException | UnsupportedOperationException error) {
            LOG.warn("the registry is polled, since it cannot be watched: {}", error.getMessage());
            close(service);
            return null;
        }
    }

    private void run() {
        while (awaitHint()) {
            try {
                view.update(registry.surelyLiveEntries()).forEach(changed);
            } catch (StorageException unseen) {
                counts.accept(Counters.REGISTRY_UNLISTED);
                LOG.warn("what was seen last counts until the next look: {}", unseen.getMessage());
            } catch (RuntimeException error) {
                LOG.error("reading the registry failed", error);
            }
        }
    }

    /** False when the watch ends. */
    private boolean awaitHint() {
        try {
            if (hints == null) {
                Thread.sleep(POLL_MS);
                return true;
            }
            WatchKey key = hints.poll(SCAN_MS, TimeUnit.MILLISECONDS);
            if (key != null) {
                key.pollEvents();
                key.reset();
            }
            return true;
        } catch (InterruptedException | ClosedWatchServiceException ended) {
            return false;
        }
    }

    /** Ends the watch. */
    public void stop() {
        close(hints);
        thread.interrupt();
    }

    private static void close(WatchService service) {
        try {
            if (service != null) {
                service.close();
            }
        } catch (IOException ignored) {
            // it is not used any more
        }
    }
}
