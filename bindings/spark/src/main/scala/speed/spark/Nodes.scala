package speed.spark

import java.nio.file.Path
import java.time.Duration
import java.util.concurrent.{ConcurrentHashMap, Semaphore, ThreadLocalRandom, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd}
import speed.{Node, NodeInfo}
import speed.errors._

/** The live nodes as one node sees them, read again when one joined or left. Thread-safe. */
final class LiveNodes(val node: Node) {
  private val changed = new Semaphore(0)
  @volatile private var seen: Seq[NodeInfo] = Nil
  @volatile private var readAt = 0L
  node.onJoin(_ => changed.release())
  node.onLeave(_ => changed.release())
  read()

  /** The same sequence as long as nothing is known to have changed. */
  def entries(): Seq[NodeInfo] = {
    if (changed.availablePermits > 0 || System.nanoTime - readAt > LiveNodes.MaxAgeNanos) read()
    seen
  }

  def read(): Unit = {
    changed.drainPermits() // before: what changes while it is read is read again
    seen = node.nodes().asScala.toSeq
    readAt = System.nanoTime
  }

  /** Until a node joins or leaves, or for a while. */
  def await(nanos: Long): Unit = {
    changed.tryAcquire(math.min(LiveNodes.LookNanos, nanos), TimeUnit.NANOSECONDS)
    read()
  }
}

/** The node of this executor: made when first needed, and kept as long as the executor or its application lives. */
object LiveNodes {
  val MaxAgeNanos: Long = TimeUnit.SECONDS.toNanos(1) // a grant that is published is told to nobody
  val LookNanos: Long = TimeUnit.MILLISECONDS.toNanos(250)
  private val executorCharacters = 20
  private val driver = "driver" // the executor of a local master
  private val mostOfOneName = 9
  private val mostTries = 3
  private type Place = (Option[String], Option[String], String)
  private val open = new ConcurrentHashMap[Place, LiveNodes]()
  private val beginning = ConcurrentHashMap.newKeySet[Place]()
  Runtime.getRuntime.addShutdownHook(new Thread(() => open.values.forEach(_.node.close(Duration.ZERO)), "speed-close"))

  def of(call: Call): LiveNodes =
    open.compute(place(call), (_, there) => if (there != null && !there.node.isClosed) there else start(call))

  private def place(call: Call) = (call.root, call.key, call.family)

  /** Has the node of a call start on a thread of its own, and meet the service's, while the task's thread compiles what Spark
   *  generates for it. What fails here fails once more for the task, which says so. The JVM of a local master may outlive its
   *  application, so nothing begins there without a task that waits. */
  def begin(call: Call): Unit =
    if (SparkEnv.get.executorId != driver && !open.containsKey(place(call)) && beginning.add(place(call))) {
      val meeting: Runnable = () =>
        try meet(of(call).node, call) catch { case NonFatal(_) => } finally beginning.remove(place(call))
      val thread = new Thread(meeting, "speed-begin")
      thread.setDaemon(true)
      thread.start()
    }

  /** The first question to a node opens the link to it, which the first call then finds. */
  private def meet(node: Node, call: Call): Unit =
    node.nodes().asScala.find(one => one.isOneOf(call.node) && one.allows(node.name)).foreach(one => node.services(one.name))

  def executor: String = SparkEnv.get.executorId.replaceAll("[^A-Za-z0-9_-]", "-").take(executorCharacters)

  private def start(call: Call): LiveNodes = {
    val node = try named(call, s"${call.family}.$executor", 1) catch {
      case error @ (_: ConfigurationException | _: RegistrationException) =>
        throw Failures.ending(error, Failures.thisExecutor)
    }
    closeAtTheEnd(node)
    new LiveNodes(node)
  }

  /** Another class loader of this JVM, or a use with another key, may have the name. */
  private def named(call: Call, name: String, count: Int, tries: Int = 1): Node =
    try opened(call, if (count == 1) name else s"$name.$count") catch {
      case _: NameTakenException if count < mostOfOneName => named(call, name, count + 1, tries)
      // A fresh JVM loads its classes between claim and entry, which takes longer than a lease on a host that is overloaded.
      case _: LeaseLostException if tries < mostTries => named(call, name, count, tries + 1)
    }

  private def opened(call: Call, name: String): Node = {
    val lease = millis(call.leaseSeconds)
    val heartbeat = millis(math.min(1.0, call.leaseSeconds / 4))
    val settings = Node.builder(name).lease(lease, heartbeat).workers(1).ephemeral()
    call.root.foreach(root => settings.root(Path.of(root)))
    call.key.foreach(key => settings.key(Path.of(key)))
    settings.open()
  }

  private def millis(seconds: Double): Duration = Duration.ofMillis((seconds * 1000).toLong)

  /** An executor ends with its JVM; that of a local master ends with the application, and the JVM goes on. */
  private def closeAtTheEnd(node: Node): Unit =
    if (SparkEnv.get.executorId == driver) {
      SparkContext.getOrCreate().addSparkListener(new SparkListener {
        override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit = {
          open.values.removeIf(_.node eq node)
          node.close(Duration.ZERO)
        }
      })
    }
}

object Targets {
  /** Settings of calls whose service was found to be there on this host. */
  private val checked = ConcurrentHashMap.newKeySet[Call]()
  /** How long a node is waited for before a line says so. */
  val SilentSeconds = 2.0
  private val log = org.slf4j.LoggerFactory.getLogger("speed.spark")
}

/** The nodes that a name or family stands for, or its fall-back while none of them is there. One thread uses it. */
final class Targets(live: LiveNodes, call: Call, check: () => Unit) {
  private val patterns = call.node +: call.fallback.toSeq
  private val left = scala.collection.mutable.Set[(String, Int)]()
  private var seen: Seq[NodeInfo] = _
  private var fitting: Seq[Seq[NodeInfo]] = Nil

  /** Once for each use on this host: the node is there, allows this one, and has the service. Waits for the node, but not
   *  for one that has another key.
   */
  def checkService(): Unit = {
    val use = call.copy(columns = None, promised = Nil, use = "")
    while (!Targets.checked.contains(use)) {
      val target = whyUnreadable().fold(take(_ => 0))(why => throw new UnknownNodeException(why))
      try {
        val there = live.node.services(target.name)
        if (!there.contains(call.service)) {
          val others = if (there.isEmpty) "none" else there.asScala.mkString(", ")
          throw new ServiceNotFoundException(s"${target.name} has no service '${call.service}'; it has $others")
        }
        Targets.checked.add(use)
      } catch { case _: NodeLeftException | _: UnknownNodeException => leave(target) } // another one, or the same started anew
    }
  }

  /** What the registry says of an entry of the node that another key made; None where there is none such. */
  private def whyUnreadable(): Option[String] = if (candidates().nonEmpty || call.node.contains("*")) None else
    try { live.node.services(call.node); None } catch {
      case error: UnknownNodeException if error.getMessage.contains("not authentic") =>
        Some(s"no node '${call.node}' is there (after 0 s); ${error.getMessage}")
      case _: SpeedException => None
    }

  /** The node to ask now: one with the fewest calls under way. Waits for one to join, and soon says so. */
  def take(underWay: String => Int): NodeInfo = {
    val began = System.nanoTime
    val deadline = began + (call.waitSeconds * 1e9).toLong
    var isReported = false
    while (true) {
      val allowing = candidates().filter(_.allows(live.node.name))
      if (allowing.nonEmpty) return fewest(allowing, underWay)
      val remaining = deadline - System.nanoTime
      if (remaining <= 0) throw nobody(call.waitSeconds)
      val waitedSeconds = (System.nanoTime - began) / 1e9
      if (waitedSeconds >= Targets.SilentSeconds && !isReported) {
        isReported = true
        Targets.log.warn(s"${nobody(math.rint(waitedSeconds * 100) / 100).getMessage}; waiting for up to ${Failures.number(call.waitSeconds, 6)} s")
      }
      check()
      live.await(remaining)
    }
    throw new AssertionError
  }

  private def fewest(nodes: Seq[NodeInfo], underWay: String => Int): NodeInfo =
    if (nodes.size == 1) nodes.head else {
      val least = nodes.map(node => underWay(node.name)).min
      val idle = nodes.filter(node => underWay(node.name) == least)
      idle(ThreadLocalRandom.current.nextInt(idle.size))
    }

  /** `target` was found gone: it is not asked again, whatever its entry says, until it started anew. */
  def leave(target: NodeInfo): Unit = {
    left += ((target.name, target.generation))
    live.read()
  }

  /** Whether the registry says now that `target` does not allow this node. */
  def denies(target: NodeInfo): Boolean = {
    live.read()
    !live.entries().exists(one => one.name == target.name && one.allows(live.node.name))
  }

  private def candidates(): Seq[NodeInfo] = {
    val entries = live.entries()
    if (entries ne seen) {
      seen = entries
      fitting = patterns.map(pattern => entries.filter(_.isOneOf(pattern)))
    }
    val there = fitting.map(_.filterNot(one => left((one.name, one.generation))))
    there.find(_.nonEmpty).getOrElse(Nil)
  }

  private def nobody(waitedSeconds: Double): SpeedException = {
    val waited = s"after ${Failures.number(waitedSeconds, 6)} s"
    val name = live.node.name
    candidates().headOption.map { there =>
      val family = name.takeWhile(_ != '.') + ".*"
      new AccessDeniedException(s"${there.name} does not allow $name ($waited): node.allow('$family') there")
    }.getOrElse {
      val asked = patterns.map(one => s"'$one'").mkString(" or ")
      new UnknownNodeException(s"no node $asked is there ($waited): start it, or see `speed nodes`")
    }
  }
}
