package speed.spark

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatchRow}
import org.apache.spark.unsafe.Platform

/** Numbers on the wire of the kinds of columns, and where the parts of a body lie (registry_spec/columns.md). */
object ColumnBodies {
  val Int64 = 1
  val Float64 = 2
  val Bool = 3
  val Utf8 = 4
  val Binary = 5
  val Timestamp = 6
  val DecimalKind = 7
  val Date = 8
  val LocalTimestamp = 10
  val Duration = 11
  val HeaderBytes = 8
  private val base = Platform.BYTE_ARRAY_OFFSET.toLong

  /** The kind of column that a type of Spark travels as; 0 for none. */
  def kindOf(kind: DataType): Int = kind match {
    case ByteType | ShortType | IntegerType | LongType => Int64
    case FloatType | DoubleType => Float64
    case BooleanType => Bool
    case StringType => Utf8
    case BinaryType => Binary
    case TimestampType => Timestamp
    case DateType => Date
    case TimestampNTZType => LocalTimestamp
    case _: DayTimeIntervalType => Duration
    case decimal: DecimalType if decimal.scale >= 0 => DecimalKind
    case _ => 0
  }

  def filled(size: Int): Int = (size + 7) & ~7
  def bitBytes(rows: Int): Int = (rows + 7) >> 3
  def hasOffsets(kind: Int): Boolean = kind == Utf8 || kind == Binary
  def width(kind: Int): Int = if (kind == DecimalKind) 16 else if (kind == Date) 4 else 8
  def rowsOf(body: Array[Byte]): Int = Platform.getInt(body, base + 4)
  def bit(body: Array[Byte], at: Int, row: Int): Boolean = (body(at + (row >> 3)) >> (row & 7) & 1) != 0
  def int(body: Array[Byte], at: Int): Int = Platform.getInt(body, base + at)

  def header(body: Array[Byte], kind: Int, hasNulls: Boolean, precision: Int, scale: Int, rows: Int): Unit = {
    body(0) = kind.toByte
    body(1) = if (hasNulls) 1 else 0
    body(2) = precision.toByte
    body(3) = scale.toByte
    Platform.putInt(body, base + 4, rows)
  }

  /** Rows `from` to `until` of a column, as a body of their own. */
  def slice(body: Array[Byte], from: Int, until: Int): Array[Byte] = {
    val (kind, hasNulls, rows, count) = (body(0).toInt, body(1) == 1, rowsOf(body), until - from)
    val bits = if (hasNulls) filled(bitBytes(count)) else 0
    val parts = HeaderBytes + (if (hasNulls) filled(bitBytes(rows)) else 0)
    val data = parts + (if (hasOffsets(kind)) filled((rows + 1) * 4) else 0)
    val at = HeaderBytes + bits
    val made = if (hasOffsets(kind)) {
      val (first, last) = (int(body, parts + from * 4), int(body, parts + until * 4))
      val texts = at + filled((count + 1) * 4)
      val made = new Array[Byte](texts + filled(last - first))
      for (row <- 0 to count) Platform.putInt(made, base + at + row * 4, int(body, parts + (from + row) * 4) - first)
      System.arraycopy(body, data + first, made, texts, last - first)
      made
    } else if (kind == Bool) {
      val made = new Array[Byte](at + filled(bitBytes(count)))
      copyBits(body, data, from, made, at, count)
      made
    } else {
      val made = new Array[Byte](at + filled(count * width(kind)))
      System.arraycopy(body, data + from * width(kind), made, at, count * width(kind))
      made
    }
    header(made, kind, hasNulls, body(2), body(3), count)
    if (hasNulls) copyBits(body, HeaderBytes, from, made, HeaderBytes, count)
    made
  }

  private def copyBits(from: Array[Byte], at: Int, first: Int, to: Array[Byte], start: Int, count: Int): Unit =
    for (row <- 0 until count if bit(from, at, first + row))
      to(start + (row >> 3)) = (to(start + (row >> 3)) | (1 << (row & 7))).toByte
}

/** The values of one argument, added row by row; `body` is the column of what was added since `reset`. */
sealed abstract class ColumnBuilder(kind: Int, precision: Int = 0, scale: Int = 0) {
  import ColumnBodies._

  protected val base: Long = Platform.BYTE_ARRAY_OFFSET.toLong
  protected var rows = 0
  protected var used = 0
  protected var data = new Array[Byte](1024)
  private val mostKept = 4 << 20
  private var valid = new Array[Byte](128)
  private var hasNulls = false

  def reset(): Unit = {
    if (hasNulls) java.util.Arrays.fill(valid, 0.toByte)
    rows = 0
    used = 0
    hasNulls = false
    begin()
  }

  def add(row: InternalRow, ordinal: Int): Unit = {
    if (row.isNullAt(ordinal)) {
      if (!hasNulls) {
        hasNulls = true
        markValid(0, rows)
      }
      addNull()
    } else {
      if (hasNulls) markValid(rows, rows + 1)
      addValue(row, ordinal)
    }
    rows += 1
  }

  /** Adds some rows of a column. */
  def addAll(column: ColumnVector, from: Int, count: Int): Unit = {
    val row = new ColumnarBatchRow(Array(column))
    row.rowId = from
    while (row.rowId < from + count) { add(row, 0); row.rowId += 1 }
  }

  /** So many rows came that are not null. */
  protected def addedValid(count: Int): Unit = {
    if (hasNulls) markValid(rows, rows + count)
    rows += count
  }

  /** Which rows are not null is noted once there is one that is. */
  private def markValid(from: Int, until: Int): Unit = {
    if (bitBytes(until) > valid.length) valid = java.util.Arrays.copyOf(valid, math.max(valid.length * 2, bitBytes(until)))
    var row = from
    while (row < until) {
      if ((row & 7) == 0 && until - row >= 8) {
        valid(row >> 3) = 0xff.toByte
        row += 8
      } else {
        valid(row >> 3) = (valid(row >> 3) | (1 << (row & 7))).toByte
        row += 1
      }
    }
  }

  /** Bits that each row takes, beside that of its validity; 0 where rows differ. */
  def rowBits: Int = width(kind) * 8

  /** Bytes that a row takes, at most, beside those that are there. */
  def sizeOf(row: InternalRow, ordinal: Int): Long = width(kind)

  /** Bytes of the parts without what fills them up. */
  def size: Long = used.toLong + (if (hasNulls) bitBytes(rows) else 0)

  def body(): Array[Byte] = {
    val bits = if (hasNulls) filled(bitBytes(rows)) else 0
    val made = new Array[Byte](HeaderBytes + bits + partsBytes)
    header(made, kind, hasNulls, precision, scale, rows)
    if (hasNulls) System.arraycopy(valid, 0, made, HeaderBytes, math.min(valid.length, bitBytes(rows)))
    writeParts(made, HeaderBytes + bits)
    if (data.length > mostKept) data = new Array[Byte](1024) // that of a rare giant is given back
    made
  }

  protected def begin(): Unit = ()
  protected def addNull(): Unit
  protected def addValue(row: InternalRow, ordinal: Int): Unit
  protected def partsBytes: Int = filled(used)
  protected def writeParts(made: Array[Byte], at: Int): Unit = System.arraycopy(data, 0, made, at, used)

  protected def need(bytes: Int): Unit =
    if (used + bytes > data.length) data = java.util.Arrays.copyOf(data, math.max(data.length * 2, used + bytes))
}

object ColumnBuilder {
  /** For values of a type that `ColumnBodies.kindOf` knows. */
  def of(kind: DataType): ColumnBuilder = kind match {
    case ByteType => new Numbers(ColumnBodies.Int64, (row, at) => row.getByte(at).toLong, null)
    case ShortType => new Numbers(ColumnBodies.Int64, (row, at) => row.getShort(at).toLong, null)
    case IntegerType => new Numbers(ColumnBodies.Int64, (row, at) => row.getInt(at).toLong, null)
    case LongType => new Numbers(ColumnBodies.Int64, (row, at) => row.getLong(at), longs)
    case TimestampType => new Numbers(ColumnBodies.Timestamp, (row, at) => row.getLong(at), longs)
    case TimestampNTZType => new Numbers(ColumnBodies.LocalTimestamp, (row, at) => row.getLong(at), longs)
    case _: DayTimeIntervalType => new Numbers(ColumnBodies.Duration, (row, at) => row.getLong(at), longs)
    case DateType => new Dates
    case FloatType =>
      new Numbers(ColumnBodies.Float64, (row, at) => java.lang.Double.doubleToRawLongBits(row.getFloat(at).toDouble), null)
    case DoubleType =>
      new Numbers(ColumnBodies.Float64, (row, at) => java.lang.Double.doubleToRawLongBits(row.getDouble(at)), doubles)
    case BooleanType => new Bits
    case StringType => new Texts(ColumnBodies.Utf8)
    case BinaryType => new Texts(ColumnBodies.Binary)
    case decimal: DecimalType => new Decimals(decimal)
    case other => throw new IllegalArgumentException(s"no column holds ${other.simpleString}")
  }

  /** Numbers of a column that lie as they travel, all at once to a place; null for those that have another width. */
  trait ReadsAll { def apply(column: ColumnVector, from: Int, count: Int, to: Array[Byte], at: Long): Unit }
  private val longs: ReadsAll = (column, from, count, to, at) =>
    Platform.copyMemory(column.getLongs(from, count), Platform.LONG_ARRAY_OFFSET, to, at, count * 8L)
  private val doubles: ReadsAll = (column, from, count, to, at) =>
    Platform.copyMemory(column.getDoubles(from, count), Platform.DOUBLE_ARRAY_OFFSET, to, at, count * 8L)

  /** Without a box around each value. */
  trait Reads { def apply(row: InternalRow, ordinal: Int): Long }

  private final class Numbers(kind: Int, read: Reads, all: ReadsAll) extends ColumnBuilder(kind) {
    override def addAll(column: ColumnVector, from: Int, count: Int): Unit =
      if (all == null || column.hasNull) super.addAll(column, from, count)
      else {
        need(count * 8)
        all(column, from, count, data, base + used)
        used += count * 8
        addedValid(count)
      }
    override protected def addNull(): Unit = put(0)
    override protected def addValue(row: InternalRow, ordinal: Int): Unit = put(read(row, ordinal))
    private def put(value: Long): Unit = {
      need(8)
      Platform.putLong(data, base + used, value)
      used += 8
    }
  }

  private final class Dates extends ColumnBuilder(ColumnBodies.Date) {
    override protected def addNull(): Unit = put(0)
    override protected def addValue(row: InternalRow, ordinal: Int): Unit = put(row.getInt(ordinal))
    private def put(value: Int): Unit = {
      need(4)
      Platform.putInt(data, base + used, value)
      used += 4
    }
  }

  private final class Bits extends ColumnBuilder(ColumnBodies.Bool) {
    override def rowBits: Int = 1
    override protected def addNull(): Unit = put(false)
    override protected def addValue(row: InternalRow, ordinal: Int): Unit = put(row.getBoolean(ordinal))
    private def put(value: Boolean): Unit = {
      if ((rows & 7) == 0) {
        need(1)
        data(used) = 0
        used += 1
      }
      if (value) data(used - 1) = (data(used - 1) | (1 << (rows & 7))).toByte
    }
  }

  private final class Texts(kind: Int) extends ColumnBuilder(kind) {
    private var offsets = new Array[Int](129)
    override def rowBits: Int = 0
    override def sizeOf(row: InternalRow, ordinal: Int): Long =
      4L + (if (row.isNullAt(ordinal)) 0
            else if (kind == ColumnBodies.Utf8) row.getUTF8String(ordinal).numBytes
            else row.getBinary(ordinal).length)
    override def size: Long = super.size + (rows + 1) * 4L
    override protected def addNull(): Unit = ended()
    override protected def addValue(row: InternalRow, ordinal: Int): Unit = {
      if (kind == ColumnBodies.Utf8) {
        val text = row.getUTF8String(ordinal)
        need(text.numBytes)
        text.writeToMemory(data, base + used)
        used += text.numBytes
      } else {
        val bytes = row.getBinary(ordinal)
        need(bytes.length)
        System.arraycopy(bytes, 0, data, used, bytes.length)
        used += bytes.length
      }
      ended()
    }
    private def ended(): Unit = {
      if (rows + 1 >= offsets.length) offsets = java.util.Arrays.copyOf(offsets, offsets.length * 2)
      offsets(rows + 1) = used
    }
    override protected def partsBytes: Int = ColumnBodies.filled((rows + 1) * 4) + ColumnBodies.filled(used)
    override protected def writeParts(made: Array[Byte], at: Int): Unit = {
      Platform.copyMemory(offsets, Platform.INT_ARRAY_OFFSET, made, base + at, (rows + 1) * 4L)
      System.arraycopy(data, 0, made, at + ColumnBodies.filled((rows + 1) * 4), used)
    }
  }

  private final class Decimals(kind: DecimalType)
      extends ColumnBuilder(ColumnBodies.DecimalKind, kind.precision, kind.scale) {
    override protected def addNull(): Unit = put(0, 0)
    override protected def addValue(row: InternalRow, ordinal: Int): Unit = {
      val value = row.getDecimal(ordinal, kind.precision, kind.scale)
      if (kind.precision <= Decimal.MAX_LONG_DIGITS) {
        val whole = value.toUnscaledLong
        put(whole, whole >> 63)
      } else {
        val whole = value.toJavaBigDecimal.setScale(kind.scale).unscaledValue
        put(whole.longValue, whole.shiftRight(64).longValue)
      }
    }
    private def put(low: Long, high: Long): Unit = {
      need(16)
      Platform.putLong(data, base + used, low)
      Platform.putLong(data, base + used + 8, high)
      used += 16
    }
  }
}
