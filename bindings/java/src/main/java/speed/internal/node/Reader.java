package speed.internal.node;

import java.util.concurrent.TimeUnit;
import speed.internal.core.Log;

/** The thread that holds the protocol role, from the start of a node to its end. */
final class Reader extends Thread {
    private static final Log LOG = new Log("speed.protocol");

    private final Protocol protocol;
    private volatile boolean stopping;

    Reader(String node, Protocol protocol) {
        super("speed-" + node + "-protocol");
        this.protocol = protocol;
        setDaemon(true);
    }

    @Override
    public void run() {
        while (!stopping) {
            protocol.turn();
        }
    }

    /** Ends after the present turn, and waits for that. */
    void end(long nanos) {
        stopping = true;
        protocol.wake();
        boolean interrupted = Thread.interrupted();
        try {
            TimeUnit.NANOSECONDS.timedJoin(this, nanos);
        } catch (InterruptedException hurry) {
            interrupted = true;
        }
        if (isAlive() && !interrupted) {
            LOG.error("{} does not end", getName());
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
