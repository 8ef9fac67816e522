package speed.spark

import java.util.ArrayDeque

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.adaptive.TableCacheQueryStageExec
import org.apache.spark.sql.execution.columnar.{DefaultCachedBatchSerializer, InMemoryTableScanExec}
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.apache.spark.sql.execution.vectorized.{OnHeapColumnVector, WritableColumnVector}
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized._

/** Columns as Spark's scans have them. */
object Vectors {
  /** Of the scans of Spark itself: what a plug-in puts in their place may lie where this program cannot read. */
  def canTake(plan: SparkPlan): Boolean = plan.supportsColumnar && (plan match {
    case stage: TableCacheQueryStageExec => canTake(stage.plan)
    case _: InMemoryTableScanExec | _: FileSourceScanExec | _: BatchScanExec | _: ServiceCallExec => true
    case _ => false
  })

  /** Whether the columns of a batch stay as they are when the next one is read. Readers of files use them again. */
  def stay(plan: SparkPlan): Boolean = plan match {
    case stage: TableCacheQueryStageExec => stay(stage.plan)
    case scan: InMemoryTableScanExec => scan.relation.cacheBuilder.serializer.getClass == classOf[DefaultCachedBatchSerializer]
    case _: ServiceCallExec => true
    case _ => false
  }

  /** Types that have one value a row, and not several in columns of their own. */
  def isFlat(kind: DataType): Boolean = kind match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType | BinaryType | DateType |
        TimestampType | TimestampNTZType | _: TimeType => true
    case _: StringType | _: DecimalType | _: YearMonthIntervalType | _: DayTimeIntervalType => true
    case _ => false
  }

  /** Rows of a column of a flat type, in memory of their own. */
  def copied(from: ColumnVector, rows: Int): ColumnVector = {
    val made = new OnHeapColumnVector(rows, from.dataType)
    if (from.hasNull) copyOneByOne(from, made, rows) else copyAll(from, made, rows)
    made
  }

  private def copyAll(from: ColumnVector, made: WritableColumnVector, rows: Int): Unit = from.dataType match {
    case ByteType => made.putBytes(0, rows, from.getBytes(0, rows), 0)
    case ShortType => made.putShorts(0, rows, from.getShorts(0, rows), 0)
    case IntegerType | DateType | _: YearMonthIntervalType => made.putInts(0, rows, from.getInts(0, rows), 0)
    case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType | _: TimeType =>
      made.putLongs(0, rows, from.getLongs(0, rows), 0)
    case FloatType => made.putFloats(0, rows, from.getFloats(0, rows), 0)
    case DoubleType => made.putDoubles(0, rows, from.getDoubles(0, rows), 0)
    case _ => copyOneByOne(from, made, rows)
  }

  /** Vectors of Arrow refuse to tell what stands where there is null. */
  private def copyOneByOne(from: ColumnVector, made: WritableColumnVector, rows: Int): Unit = {
    var row = 0
    while (row < rows) {
      if (from.isNullAt(row)) made.putNull(row) else copyValue(from, made, row, from.dataType)
      row += 1
    }
  }

  private def copyValue(from: ColumnVector, made: WritableColumnVector, row: Int, kind: DataType): Unit = kind match {
    case BooleanType => made.putBoolean(row, from.getBoolean(row))
    case ByteType => made.putByte(row, from.getByte(row))
    case ShortType => made.putShort(row, from.getShort(row))
    case IntegerType | DateType | _: YearMonthIntervalType => made.putInt(row, from.getInt(row))
    case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType | _: TimeType =>
      made.putLong(row, from.getLong(row))
    case FloatType => made.putFloat(row, from.getFloat(row))
    case DoubleType => made.putDouble(row, from.getDouble(row))
    case _: StringType => made.putByteArray(row, from.getUTF8String(row).getBytes)
    case BinaryType => made.putByteArray(row, from.getBinary(row))
    case decimal: DecimalType =>
      made.putDecimal(row, from.getDecimal(row, decimal.precision, decimal.scale), decimal.precision)
    case other => throw new IllegalArgumentException(s"${other.simpleString} is not one value a row")
  }
}

/** Rows of one batch of the child, as far as they are kept. */
final class KeptColumns(val columns: Array[ColumnVector], val from: Int, val rows: Int) {
  /** Those that lie in `first` to `until` of these rows. */
  def some(first: Int, until: Int): Array[ColumnVector] =
    if (from == 0 && first == 0 && until == rows) columns
    else columns.map(new SomeRows(_, from + first, until - first): ColumnVector)
}

/** Columns in, columns with the answer out: no row is made of them here. */
final class ServiceBatches(in: Iterator[ColumnarBatch], task: ServiceTask, stay: Boolean, counts: Counts, context: TaskContext)
    extends ServiceFlow[Seq[KeptColumns]](task, counts, context) with Iterator[ColumnarBatch] {
  private val ordinals = task.argumentsAt
  private val keptAt = task.keptAt
  private val ready = new ArrayDeque[ColumnarBatch]()
  private var batch: ColumnarBatch = _ // the one that is read, from `at` on
  private var columns: Array[ColumnVector] = _
  private var row: ColumnarBatchRow = _
  private var at = 0

  override def hasNext: Boolean = {
    while (ready.isEmpty && advance()) {}
    !ready.isEmpty
  }

  override def next(): ColumnarBatch = {
    if (!hasNext) throw new NoSuchElementException
    ready.poll()
  }

  override protected def hasInput: Boolean = {
    if (!stay && batch != null && at == batch.numRows) builders.foreach(_.settle())
    while ((batch == null || at == batch.numRows) && in.hasNext) begin(in.next())
    batch != null && at < batch.numRows
  }

  private def begin(next: ColumnarBatch): Unit = {
    if (batch != null && !stay) batch.closeIfFreeable()
    batch = next
    at = 0
    row = new ColumnarBatchRow(Array.tabulate(next.numCols)(next.column))
    columns = keptAt.map { kept => if (stay) next.column(kept) else Vectors.copied(next.column(kept), next.numRows) }
  }

  /** One batch of the child after the other, as long as they fit as a whole; one that is too large alone is cut. */
  override protected def take(): (Seq[KeptColumns], Int) = {
    val taken = ArrayBuffer[KeptColumns]()
    var (count, goesOn) = (0, true)
    while (goesOn && hasInput) {
      val left = batch.numRows - at
      val fits = if (count + left > mostRows && count > 0) 0 else added(math.min(left, mostRows - count), count)
      if (fits > 0) taken += new KeptColumns(columns, at, fits)
      at += fits
      count += fits
      goesOn = fits == left && count < mostRows
    }
    (taken.toSeq, count)
  }

  /** Adds as many of the next rows as there is room for, and one at least where there are none. */
  private def added(most: Int, before: Int): Int = if (isFixed) {
    builders.indices.foreach(one => builders(one).addAll(batch.column(ordinals(one)), at, most))
    most
  } else {
    var count = 0
    row.rowId = at
    var fits = true
    while (fits && count < most) {
      builders.indices.foreach(one => builders(one).add(row, ordinals(one)))
      if (isOver(row) && before + count > 0) {
        builders.foreach(_.keep(before + count))
        fits = false
      } else count += 1
      row.rowId = at + count
    }
    count
  }

  override protected def show(answer: Array[ColumnVector], rows: Int): Unit =
    if (!call.sameRows) { if (rows > 0) ready.add(new ColumnarBatch(answer, rows)) }
    else {
      var start = 0 // of the kept rows, in their batch
      kept.foreach { some =>
        val (first, until) = (math.max(start, rowOfBatch), math.min(start + some.rows, rowOfBatch + rows))
        if (first < until)
          ready.add(new ColumnarBatch(some.some(first - start, until - start) ++
            part(answer, rows, first - rowOfBatch, until - first), until - first))
        start += some.rows
      }
      rowOfBatch += rows
    }

  private def part(answer: Array[ColumnVector], all: Int, from: Int, rows: Int): Array[ColumnVector] =
    if (rows == all) answer else answer.map(new SomeRows(_, from, rows): ColumnVector)
}
