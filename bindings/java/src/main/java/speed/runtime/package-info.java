/**
 * The running node: threads and locks.
 *
 * <p>Threads of a node, each named {@code speed-<node>-<role>}, each a daemon with a bounded wait:
 *
 * <ul>
 *   <li>members of the {@link speed.runtime.WorkerPool}: one holds the protocol role (waits on the bell, reads lanes,
 *       verifies, dispatches), others run services and handlers; started when first needed
 *   <li>the relief: notices a reader that is held up in a service
 *   <li>helpers of {@link speed.runtime.Futures}: complete futures while no worker does; started when needed, and gone
 *       when idle
 *   <li>the registry thread: renews the lease, notices nodes that died
 * </ul>
 *
 * <p>Locks and their order (a holder may take only locks further down):
 *
 * <ol>
 *   <li>the protocol role: one thread at a time reads lanes
 *   <li>{@code HeldPayloads}' monitor: the store of segments and what it holds
 *   <li>{@code OutgoingLink.flushing}: one flush to disk at a time
 *   <li>{@code OutgoingLink.lock}: sequence, sealing and appending of one link
 *   <li>{@code InboundLane}'s monitor: reading, finishing and committing of one lane
 *   <li>{@code Registration}'s monitor: the entry file
 *   <li>monitors of {@code Ringer}, {@code Bell}, {@code WorkerPool}, {@code Delivery}: only those
 *       of the {@code TaskQueue} and of {@code Delivery}'s queues are taken under them
 * </ol>
 */
package speed.runtime;
