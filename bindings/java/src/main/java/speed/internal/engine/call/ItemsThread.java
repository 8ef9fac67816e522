package speed.internal.engine.call;

import java.util.Iterator;
import speed.errors.CallWithdrawnException;
import speed.internal.engine.stream.ItemSender;
import speed.internal.engine.stream.StreamChannel;

/** Goes through the items of a caller, and sends them. It ends when the call does, unless the program's code holds it. */
final class ItemsThread implements Runnable {
    private final StreamChannel channel;
    private final Iterable<?> items;
    private final Runnable withdraw;
    private volatile Throwable failure;

    /**
     * For one call.
     *
     * @param withdraw tells the server that nobody waits
     */
    ItemsThread(StreamChannel channel, Iterable<?> items, Runnable withdraw) {
        this.channel = channel;
        this.items = items;
        this.withdraw = withdraw;
    }

    void start() {
        channel.thread("items", this).start();
    }

    @Override
    public void run() {
        ItemSender sender = new ItemSender(channel, this::fail);
        try {
            sendAll(sender);
        } catch (CallWithdrawnException ended) {
            return; // who reads the call hears why
        } catch (Throwable odd) { // of the program's own iterable
            fail(odd);
            channel.close();
        } finally {
            sender.stop();
        }
    }

    /** Before the channel is closed: who reads it looks for the reason then. */
    private void fail(Throwable odd) {
        if (failure == null) {
            failure = odd;
        }
        withdraw.run();
    }

    private void sendAll(ItemSender sender) throws Exception {
        Iterator<?> iterator = items.iterator();
        try {
            while (iterator.hasNext()) {
                sender.write(iterator.next());
            }
            sender.awaitFirstCredit();
            sender.finish(true);
        } finally {
            if (iterator instanceof AutoCloseable held) {
                held.close();
            }
        }
    }

    /** Throws what the program's iterable threw, if it did. */
    void throwFailure() {
        Throwable odd = failure;
        if (odd instanceof RuntimeException known) {
            throw known;
        } else if (odd != null) {
            throw new IllegalStateException("the items that were to be sent could not be had", odd);
        }
    }
}
