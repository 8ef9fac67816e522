/**
 * The running node: threads and locks.
 *
 * <p>Threads of a node, each named {@code speed-<node>-<role>}, each a daemon with a bounded wait:
 *
 * <ul>
 *   <li>protocol, the {@link speed.internal.node.Protocol.Reader}: holds the protocol role from the start to the end, waits on the bell,
 *       reads lanes, verifies, dispatches; runs no code of the program, waits for no room, decodes no arguments
 *   <li>worker-n, of the {@link speed.internal.engine.threads.WorkerPool}: run services, handlers and tasks, as the
 *       {@link speed.internal.core.Scheduler} decides; started when first needed
 *   <li>futures-n, of {@link speed.internal.engine.threads.Futures}: complete futures and run what hangs on them; started when needed,
 *       and gone when idle
 *   <li>stream-ID: sends the items of one stream that were given since it sent last; items-ID: goes through those of a caller
 *   <li>registry: renews the lease, notices nodes that died; the first thread to start
 *   <li>watch: sees joins and leaves, once the program wants to know
 *   <li>lost: tells the program that the lease is gone
 * </ul>
 *
 * <p>Locks and their order (a holder may take only locks further down):
 *
 * <ol>
 *   <li>{@code Node}'s and {@code Runtime}'s monitor: grants and subscriptions as the program changes them
 *   <li>{@code Families}' monitor: who is there; that somebody watches begins under it
 *   <li>{@code Delivery}'s monitor: what the program takes
 *   <li>{@code Dispatch}'s monitor: whether there is a store of segments
 *   <li>{@code DeadLetterBox}'s monitor: the files of dead letters
 *   <li>{@code HeldPayloads}' monitor: the store of segments and what it holds
 *   <li>what {@code StreamChannel} holds while another node is asked: one thread of a stream does
 *   <li>what {@code ItemSender} holds while it sends: the order of the items of one stream
 *   <li>{@code OutgoingLink.lock}: sequence, sealing and appending of one link; a second one, of a link that is put to rest,
 *       is only tried
 *   <li>{@code InboundLane}'s monitor: reading, finishing and committing of one lane
 *   <li>{@code Registration}'s monitor: the entry file
 *   <li>{@code WorkerPool}'s monitor: the scheduler
 *   <li>monitors of {@code AcceptedRequest}, {@code GroupFlush}, {@code Batches}, {@code Ringer}, {@code Bell},
 *       {@code LogLimiter}, {@code Cancellation}, {@code LeastRecentlyUsed}, {@code NodeState},
 *       {@code StreamChannel}, {@code ItemSender}, {@code CallStream}:
 *       nothing is taken under them
 * </ol>
 */
package speed.internal.engine;
