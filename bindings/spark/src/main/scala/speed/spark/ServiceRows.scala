package speed.spark

import java.util.ArrayDeque

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatchRow}
import org.apache.spark.unsafe.Platform
import speed.errors.SpeedException

/** Input of one task, several batches of it under way, and what comes of each in their order. `Kept` is what is kept of a
 *  batch until its answer is there. */
abstract class ServiceFlow[Kept](task: ServiceTask, counts: Counts, context: TaskContext) {
  protected val call: Call = task.call
  protected val builders: Array[ColumnBuilder] = task.arguments.map(one => ColumnBuilder.of(one._2.dataType)).toArray
  private val calls = new Calls(call, task.arguments.map(_._1).toArray, new Answers(call, task.types), counts, context)
  private val underWay = new ArrayDeque[Kept]()
  private var number, firstRow = 0L
  private var parts: Iterator[Batch] = Iterator.empty
  /** Of the batch whose parts are shown; null before the first. */
  protected var kept: Kept = _
  protected var rowOfBatch = 0

  protected def hasInput: Boolean
  /** Adds the rows of the next batch to the builders; gives what is kept of them, and how many they are. */
  protected def take(): (Kept, Int)
  /** Nothing of `kept` is needed any more. */
  protected def release(kept: Kept): Unit = ()
  protected def show(columns: Array[ColumnVector], rows: Int): Unit

  /** Shows what came next; false at the end. */
  protected def advance(): Boolean = try {
    if (!parts.hasNext) {
      while (calls.hasRoom && hasInput) start()
      if (calls.isEmpty) return false
      if (kept != null) release(kept)
      parts = calls.next().iterator
      kept = underWay.poll()
      rowOfBatch = 0
    }
    val part = parts.next()
    val rows = if (!part.failed) part.answered else if (call.sameRows) part.rows else 0
    show(together(if (part.failed) task.types.map(new NullColumn(_, rows)).toArray else part.columns, rows), rows)
    task.outputRows += rows
    true
  } catch { case error: SpeedException => throw Failures.ending(error, Failures.here(call)) }

  private val shownTypes = StructType(call.promised.zip(task.types).map { case (one, kind) => StructField(one.name, kind) })
  /** What Spark gets beside what is kept: several columns of the same rows are one of structs to it. */
  protected val shown: StructType =
    if (call.sameRows && call.promised.size > 1) StructType(Seq(StructField("answer", shownTypes))) else shownTypes

  private def together(columns: Array[AnswerColumn], rows: Int): Array[ColumnVector] = {
    val vectors = columns.map(one => one: ColumnVector)
    if (shown eq shownTypes) vectors else Array(new Together(vectors, shownTypes, rows))
  }

  private def start(): Unit = {
    builders.foreach(_.reset())
    atMost = 0
    val (taken, count) = take()
    underWay.add(taken)
    calls.start(new Batch(number, firstRow, count, builders.map(_.body()), builders.map(_.size).sum, call.service))
    number += 1
    firstRow += count
  }

  /** How many rows a batch holds at most, where each takes as much as the others. */
  protected val isFixed: Boolean = builders.forall(_.rowBits > 0)
  protected val mostRows: Int = if (!isFixed || builders.isEmpty) task.batchRows else {
    val rowBits = builders.map(_.rowBits).sum + task.arguments.count(_._2.nullable)
    math.max(1L, math.min(task.batchRows.toLong, call.batchBytes * 8 / rowBits)).toInt
  }

  /** Bytes of the batch that is taken, at most. */
  private var atMost = 0L
  private val widening = task.arguments.map(one => ColumnBodies.widening(one._2.dataType)).maxOption.getOrElse(1)

  /** Whether the rows that are there are too large for a call, with the one that came last; they are measured only where that
   *  is in doubt. */
  protected def isOver(last: InternalRow): Boolean = !isFixed && {
    atMost = last match {
      case unsafe: UnsafeRow => atMost + (unsafe.getSizeInBytes + 8L) * builders.length * widening
      case _ => Long.MaxValue
    }
    if (atMost > call.batchBytes) atMost = builders.map(_.size).sum
    atMost > call.batchBytes
  }
}

/** The kept parts of the rows of one batch, as bytes. */
final class KeptRows {
  private var bytes = new Array[Byte](4096)
  private var ends = new Array[Int](128)
  private var count = 0

  def reset(): Unit = count = 0
  def add(row: UnsafeRow): Unit = {
    val (at, size) = (start(count), row.getSizeInBytes)
    if (at.toLong + size > bytes.length)
      bytes = java.util.Arrays.copyOf(bytes, math.toIntExact(math.max(math.min(bytes.length * 2L, Int.MaxValue - 64L), at.toLong + size)))
    if (count == ends.length) ends = java.util.Arrays.copyOf(ends, ends.length * 2)
    Platform.copyMemory(row.getBaseObject, row.getBaseOffset, bytes, Platform.BYTE_ARRAY_OFFSET + at, size)
    ends(count) = at + size
    count += 1
  }
  def point(row: UnsafeRow, number: Int): Unit =
    row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + start(number), ends(number) - start(number))
  private def start(number: Int): Int = if (number == 0) 0 else ends(number - 1)
}

/** Rows in, rows with the answer out. */
final class ServiceRows(in: Iterator[InternalRow], task: ServiceTask, counts: Counts, context: TaskContext)
    extends ServiceFlow[KeptRows](task, counts, context) with Iterator[InternalRow] {
  private val ordinals = task.argumentsAt
  private val plain = ordinals.forall(_ >= 0)
  private val argumentsOf = if (plain) null else UnsafeProjection.create(task.arguments.map(_._2), task.input)
  if (!plain) {
    argumentsOf.initialize(context.partitionId())
    ordinals.indices.foreach(at => ordinals(at) = at)
  }
  private val keeps = task.kept.nonEmpty
  private lazy val keptOf = UnsafeProjection.create(task.kept, task.input)
  private val answerOf = UnsafeProjection.create(shown)
  private val joiner = if (!keeps) null else GenerateUnsafeRowJoiner.create(
    StructType(task.kept.map(one => StructField(one.name, one.dataType, one.nullable))), shown)

  private val free = new ArrayDeque[KeptRows]()
  private val left = new UnsafeRow(task.kept.size)
  private var ahead: InternalRow = _ // read, and beyond the size of the batch before
  private var row, rows = 0
  private var answer: ColumnarBatchRow = _

  override def hasNext: Boolean = {
    while (row >= rows && advance()) {}
    row < rows
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    answer.rowId = row
    val right = answerOf(answer)
    row += 1
    if (!keeps) right else {
      kept.point(left, rowOfBatch)
      rowOfBatch += 1
      joiner.join(left, right)
    }
  }

  override protected def show(columns: Array[ColumnVector], shownRows: Int): Unit = {
    row = 0
    rows = shownRows
    answer = new ColumnarBatchRow(columns)
  }

  override protected def release(kept: KeptRows): Unit = free.add(kept)
  override protected def hasInput: Boolean = ahead != null || in.hasNext

  override protected def take(): (KeptRows, Int) = {
    val taken = if (free.isEmpty) new KeptRows else free.poll()
    taken.reset()
    var (count, fits) = (0, true)
    while (fits && count < mostRows && hasInput) {
      val sent = if (ahead != null) ahead else in.next()
      val from = if (plain) sent else argumentsOf(sent)
      var at = 0
      while (at < builders.length) { builders(at).add(from, ordinals(at)); at += 1 }
      if (isOver(from) && count > 0) {
        builders.foreach(_.keep(count))
        ahead = sent
        fits = false
      } else {
        ahead = null
        if (keeps) taken.add(keptPart(sent))
        count += 1
      }
    }
    (taken, count)
  }

  private def keptPart(sent: InternalRow): UnsafeRow = sent match {
    case whole: UnsafeRow if task.keepsAll => whole
    case other => keptOf(other)
  }
}
