package speed.spark

import java.time.Duration
import java.util.{ArrayDeque, LinkedHashMap, Map => JavaMap}
import java.util.concurrent.{CompletableFuture, TimeUnit, TimeoutException}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.{TaskContext, TaskKilledException}
import speed.NodeInfo
import speed.columns.Column
import speed.errors._
import speed.options.CallOptions

/** Rows under way: where they lie in the partition, what is sent of them, to whom, and what comes of it. */
final class Batch(val number: Long, val firstRow: Long, val rows: Int, val bodies: Array[Array[Byte]], val sentBytes: Long,
    service: String) {
  var target: NodeInfo = _
  var attempts = 0
  var giveUp = 0L // when a batch that no node accepts has waited long enough
  var started = 0L
  var answer: CompletableFuture[Object] = _
  var columns: Array[AnswerColumn] = _ // as they were promised
  var answered = 0
  var failed = false // it has no result, and that is allowed
  var badRow: Option[Int] = None

  override def toString: String = {
    val node = if (target == null) "" else s"${target.name}."
    s"$node$service, batch $number (rows $firstRow to ${firstRow + rows - 1} of the partition)"
  }
}

/** The calls of one service for one task. The task's thread uses it; the calls end with the task. */
final class Calls(call: Call, names: Array[String], answers: Answers, counts: Counts, context: TaskContext) {
  // Needed by the first batch, not before: while a node begins, the task compiles and reads.
  private lazy val live = LiveNodes.of(call)
  private lazy val targets = {
    val made = new Targets(live, call, () => checkKilled())
    if (call.own) made.checkService()
    made
  }
  private val underWay = new ArrayDeque[Batch]()
  private val options = {
    val timed = CallOptions.DEFAULT.withTimeout(Duration.ofNanos((call.timeoutSeconds * 1e9).toLong))
    call.traceparent.fold(timed)(timed.withTraceparent)
  }
  private val lookMillis = 100L
  private val mostBytes = 32L << 20
  private var bytesUnderWay = 0L
  private var latest: Batch = _
  context.addTaskCompletionListener[Unit](_ => withdraw())

  /** More calls with much to carry would take memory of the executor, and save no time. */
  def hasRoom: Boolean = underWay.size < call.inFlight && bytesUnderWay < mostBytes
  def isEmpty: Boolean = underWay.isEmpty

  def start(batch: Batch): Unit = {
    send(batch)
    underWay.add(batch)
    bytesUnderWay += batch.sentBytes
  }

  /** The oldest batch with its result; in parts, where only rows that the service named are to become nulls. */
  def next(): Seq[Batch] = {
    val (waiting, done) = (new ArrayDeque[Batch](), ArrayBuffer[Batch]())
    waiting.push(underWay.peek)
    while (!waiting.isEmpty) {
      val part = waiting.pop()
      if (!part.failed) finish(part)
      val parts = around(part)
      if (parts.isEmpty) {
        if (part.failed) counts.failedRows += part.rows
        done += part
      } else parts.reverseIterator.foreach(waiting.push)
    }
    bytesUnderWay -= underWay.poll().sentBytes
    done.toSeq
  }

  /** A task that ended leaves nothing under way: its thread is here no more. */
  private def withdraw(): Unit = {
    underWay.forEach(batch => if (batch.answer != null) batch.answer.cancel(true))
    if (latest != null) latest.answer.cancel(true) // a part of a batch
  }

  private def checkKilled(): Unit =
    if (context.isInterrupted()) throw new TaskKilledException("the task was killed")

  /** A batch that failed at a row as the rows before it, that row, and those behind it, in halves: they may fail too. */
  private def around(batch: Batch): Seq[Batch] = batch.badRow match {
    case Some(row) if batch.rows > 1 && call.idempotent =>
      val bounds = Seq(0, row, row + 1, (row + 1 + batch.rows) / 2, batch.rows)
      val parts = bounds.zip(bounds.tail).filter { case (from, until) => from < until }.map { case (from, until) =>
        part(batch, from, until)
      }
      parts.find(_.firstRow == batch.firstRow + row).get.failed = true
      parts
    case _ => Nil
  }

  private def part(batch: Batch, from: Int, until: Int): Batch =
    new Batch(batch.number, batch.firstRow + from, until - from, batch.bodies.map(ColumnBodies.slice(_, from, until)),
      batch.sentBytes * (until - from) / batch.rows, call.service)

  /** What prevents it becomes its outcome. Throws when there is nobody to send it to. */
  private def send(batch: Batch): Unit = {
    val there = targets // what it lacks is of no batch
    batch.target = try there.take(unanswered) catch { case error: SpeedException => throw Failures.located(call, error, batch) }
    batch.attempts += 1
    batch.started = System.nanoTime
    batch.answer = try {
      val sent = arguments(batch)
      counts.calls += 1
      live.node.submit(batch.target.name, call.service, sent, options)
    } catch { case error: SpeedException => CompletableFuture.failedFuture(error) }
    latest = batch
  }

  private def arguments(batch: Batch): JavaMap[String, Object] = {
    val made = new LinkedHashMap[String, Object]()
    for (at <- names.indices) made.put(names(at), try Column.parse(batch.bodies(at)) catch {
      case _: WireException => throw notText(names(at), batch.bodies(at))
    })
    made
  }

  /** A column that was made here breaks one rule alone: Spark's strings need not be UTF-8. */
  private def notText(name: String, body: Array[Byte]): InvalidArgumentsException = {
    val row = (0 until ColumnBodies.rowsOf(body)).find { row =>
      try { Column.parse(ColumnBodies.slice(body, row, row + 1)); false } catch { case _: WireException => true }
    }
    val details = row.map(at => JavaMap.of[String, Object]("row", java.lang.Long.valueOf(at.toLong)))
    new InvalidArgumentsException(s"column '$name' is text that is not UTF-8", details.getOrElse(JavaMap.of[String, Object]()))
  }

  /** How many calls a node has not answered yet; its answer may be there and wait for its turn. */
  private def unanswered(node: String): Int = {
    var count = 0
    underWay.forEach(batch => if (batch.answer != null && !batch.answer.isDone && batch.target.name == node) count += 1)
    count
  }

  /** The batch with its result, after as many attempts as the settings allow. */
  private def finish(batch: Batch): Unit = {
    if (batch.answer == null) send(batch)
    while (batch.columns == null && !batch.failed) {
      val error = outcome(batch)
      if (error != null) {
        if (mayGoAgain(batch, error)) {
          counts.retries += 1
          send(batch)
        } else fail(batch, error)
      }
    }
  }

  /** The error that ends the call; null once the result is there. */
  private def outcome(batch: Batch): Throwable = {
    val answer = try await(batch.answer) catch { case error: SpeedException => return error }
    try {
      val (columns, rows) = answers.of(answer, if (call.sameRows) batch.rows else -1)
      batch.columns = columns
      batch.answered = rows
    } catch {
      case error: ExecutionFailedException if error.details.isEmpty => throw Failures.located(call, error, batch)
      case error: ExecutionFailedException => return error
    }
    counts.add(batch.rows, batch.sentBytes, System.nanoTime - batch.started)
    null
  }

  private def await(answer: CompletableFuture[Object]): Object = {
    while (true) {
      checkKilled()
      try return answer.get(lookMillis, TimeUnit.MILLISECONDS) catch {
        case _: TimeoutException => // it looks again whether the task is to go on
        case error: java.util.concurrent.ExecutionException => throw Failures.cause(error)
      }
    }
    throw new AssertionError
  }

  /** What no node accepted goes to the next one; what may have run goes again only where that is allowed. */
  private def mayGoAgain(batch: Batch, error: Throwable): Boolean = {
    if (error.isInstanceOf[UnknownNodeException] || error.isInstanceOf[NodeLeftException]) targets.leave(batch.target)
    if (neverRan(batch.target, error)) {
      batch.attempts -= 1
      if (batch.giveUp == 0) batch.giveUp = System.nanoTime + (call.waitSeconds * 1e9).toLong
      System.nanoTime - batch.giveUp < 0
    } else Failures.maySucceedAgain(error) && batch.attempts <= call.retries
  }

  /** Whether the node was not there, left before it began, or does not serve this one (any more). */
  private def neverRan(target: NodeInfo, error: Throwable): Boolean = error match {
    case _: AccessDeniedException => targets.denies(target)
    case gone @ (_: UnknownNodeException | _: NodeLeftException | _: NodeStartingException) =>
      gone.asInstanceOf[SpeedException].execution == Execution.NOT_BEGUN
    case _ => false
  }

  private def fail(batch: Batch, error: Throwable): Unit =
    if (Failures.isOfTheRows(error) && call.nullsForErrors) {
      batch.failed = true
      batch.badRow = Failures.badRow(error, batch)
    } else error match {
      case late: CallTimeoutException => throw Failures.located(call, late, batch, Failures.tooSlow(batch, call.timeoutSeconds))
      case known: SpeedException => throw Failures.located(call, known, batch)
      case other => throw other
    }
}
