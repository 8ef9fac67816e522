package speed.spark

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.{SpecializedGetters, UnsafeArrayData}
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.execution.vectorized.WritableColumnVector
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatchRow}
import org.apache.spark.unsafe.Platform
import speed.errors.PayloadTooLargeException

/** The values of one argument, added row by row; `body` is the column of what was added since `reset`. */
sealed abstract class ColumnBuilder(kind: Int, precision: Int = 0, scale: Int = 0) {
  import ColumnBodies._

  protected val base: Long = Platform.BYTE_ARRAY_OFFSET.toLong
  protected var rows = 0
  protected var used = 0
  protected var data = new Array[Byte](1024)
  private var valid = new Array[Byte](128)
  private var hasNulls = false

  final def count: Int = rows

  def reset(): Unit = {
    if (hasNulls) Arrays.fill(valid, 0.toByte)
    rows = 0
    used = 0
    hasNulls = false
  }

  final def add(from: SpecializedGetters, at: Int): Unit =
    if (from.isNullAt(at)) addNull()
    else {
      if (hasNulls) markValid(rows, rows + 1)
      addValue(from, at)
      rows += 1
    }

  final def addNull(): Unit = {
    noteNulls()
    addFilling()
    rows += 1
  }

  /** A row without meaning, of a field whose struct is null: no null is noted for it. */
  final def addNothing(): Unit = {
    if (hasNulls) markValid(rows, rows + 1)
    addFilling()
    rows += 1
  }

  /** All items of a list. */
  def addItems(items: ArrayData): Unit = {
    val count = items.numElements()
    var at = 0
    while (at < count) { add(items, at); at += 1 }
  }

  /** Some rows of a column. */
  def addAll(column: ColumnVector, from: Int, count: Int): Unit = {
    val row = new ColumnarBatchRow(Array(column))
    row.rowId = from
    while (row.rowId < from + count) { add(row, 0); row.rowId += 1 }
  }

  /** Reads what was added, whose columns are about to change. */
  def settle(): Unit = ()

  /** Drops all rows but the first. */
  def keep(count: Int): Unit = {
    if (hasNulls && count < rows) {
      val whole = bitBytes(count)
      Arrays.fill(valid, whole, bitBytes(rows), 0.toByte)
      if ((count & 7) != 0) valid(whole - 1) = (valid(whole - 1) & ((1 << (count & 7)) - 1)).toByte
    }
    rows = count
  }

  /** So many rows came, whose nulls are those of the column. */
  protected def added(column: ColumnVector, from: Int, count: Int): Unit = {
    if (column.hasNull) noteNulls()
    if (hasNulls) {
      needValid(rows + count)
      var at = 0
      while (at < count) {
        if (!column.isNullAt(from + at)) {
          val row = rows + at
          valid(row >> 3) = (valid(row >> 3) | (1 << (row & 7))).toByte
        }
        at += 1
      }
    }
    rows += count
  }

  /** So many rows came that are not null. */
  protected def addedValid(count: Int): Unit = {
    if (hasNulls) markValid(rows, rows + count)
    rows += count
  }

  /** Which rows are not null is noted once there is one that is. */
  private def noteNulls(): Unit = if (!hasNulls) {
    hasNulls = true
    markValid(0, rows)
  }

  private def markValid(from: Int, until: Int): Unit = {
    needValid(until)
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

  private def needValid(rows: Int): Unit =
    if (bitBytes(rows) > valid.length) valid = Arrays.copyOf(valid, math.max(valid.length * 2, bitBytes(rows)))

  /** Bits that each row takes, beside that of its validity; 0 where rows differ. */
  def rowBits: Int = width(kind) * 8

  /** Bytes of the parts without what fills them up. */
  def size: Long = used.toLong + (if (hasNulls) bitBytes(rows) else 0)

  final def body(): Array[Byte] = {
    val size = bodyBytes
    if (size > ColumnBuilder.MostBytes) throw ColumnBuilder.tooLarge
    val made = new Array[Byte](size.toInt)
    write(made, 0)
    made
  }

  /** So many bytes has the body. */
  final def bodyBytes: Long = HeaderBytes + validBytes + partsBytes
  private def validBytes: Int = if (hasNulls) filled(bitBytes(rows)) else 0

  final def write(made: Array[Byte], at: Int): Unit = {
    header(made, at, kind, hasNulls, precision, scale, rows)
    if (hasNulls) System.arraycopy(valid, 0, made, at + HeaderBytes, math.min(valid.length, bitBytes(rows)))
    writeParts(made, at + HeaderBytes + validBytes)
    if (data.length > ColumnBuilder.MostKept) data = new Array[Byte](1024) // that of a rare giant is given back
  }

  protected def addValue(from: SpecializedGetters, at: Int): Unit
  /** What stands where a row has no value. */
  protected def addFilling(): Unit
  protected def partsBytes: Long = filled(used)
  protected def writeParts(made: Array[Byte], at: Int): Unit = System.arraycopy(data, 0, made, at, used)

  protected def need(bytes: Int): Unit =
    if (used.toLong + bytes > data.length) {
      if (used.toLong + bytes > ColumnBuilder.MostBytes) throw ColumnBuilder.tooLarge
      data = Arrays.copyOf(data, math.max(data.length * 2, used + bytes))
    }
}

object ColumnBuilder {
  private val MostKept = 4 << 20
  private val MostBytes = 1 << 30
  private def tooLarge = new PayloadTooLargeException(s"a row has values of more than $MostBytes bytes for one column")

  /** For values of a type that `ColumnBodies.isKnown`. */
  def of(kind: DataType): ColumnBuilder = kind match {
    case ByteType => new Fixed(ColumnBodies.Int64, (from, at) => from.getByte(at).toLong, bytes)
    case ShortType => new Fixed(ColumnBodies.Int64, (from, at) => from.getShort(at).toLong, shorts)
    case IntegerType => new Fixed(ColumnBodies.Int64, (from, at) => from.getInt(at).toLong, ints)
    case LongType => new Fixed(ColumnBodies.Int64, (from, at) => from.getLong(at), longs)
    case TimestampType => new Fixed(ColumnBodies.Timestamp, (from, at) => from.getLong(at), longs)
    case TimestampNTZType => new Fixed(ColumnBodies.LocalTimestamp, (from, at) => from.getLong(at), longs)
    case _: DayTimeIntervalType => new Fixed(ColumnBodies.Duration, (from, at) => from.getLong(at), longs)
    case _: TimeType => new Fixed(ColumnBodies.Time, (from, at) => from.getLong(at) / 1000, nanos)
    case DateType => new Fixed(ColumnBodies.Date, (from, at) => from.getInt(at).toLong, days)
    case FloatType => new Fixed(ColumnBodies.Float64, (from, at) => bits(from.getFloat(at).toDouble), floats)
    case DoubleType => new Fixed(ColumnBodies.Float64, (from, at) => bits(from.getDouble(at)), doubles)
    case BooleanType => new Bits
    case StringType => new Texts(ColumnBodies.Utf8)
    case BinaryType => new Texts(ColumnBodies.Binary)
    case decimal: DecimalType => new Decimals(decimal)
    case list: ArrayType => new Lists(of(list.elementType))
    case map: MapType => new Maps(of(map.keyType), of(map.valueType))
    case struct: StructType => new Structs(struct.names, struct.fields.map(one => of(one.dataType)))
    case _: VariantType => new Variants
    case other => throw new IllegalArgumentException(s"no column holds ${other.simpleString}")
  }

  private def bits(value: Double): Long = java.lang.Double.doubleToRawLongBits(value)

  /** Values without a box around each. */
  private trait Reads { def apply(from: SpecializedGetters, at: Int): Long }

  /** Values of a column, all at once to a place. */
  private trait ReadsAll { def apply(column: ColumnVector, from: Int, count: Int, to: Array[Byte], at: Long): Unit }
  private val longs: ReadsAll = (column, from, count, to, at) =>
    Platform.copyMemory(column.getLongs(from, count), Platform.LONG_ARRAY_OFFSET, to, at, count * 8L)
  private val doubles: ReadsAll = (column, from, count, to, at) =>
    Platform.copyMemory(column.getDoubles(from, count), Platform.DOUBLE_ARRAY_OFFSET, to, at, count * 8L)
  private val days: ReadsAll = (column, from, count, to, at) =>
    Platform.copyMemory(column.getInts(from, count), Platform.INT_ARRAY_OFFSET, to, at, count * 4L)
  private val nanos: ReadsAll = each((column, row) => column.getLong(row) / 1000)
  private val ints: ReadsAll = each((column, row) => column.getInt(row))
  private val shorts: ReadsAll = each((column, row) => column.getShort(row))
  private val bytes: ReadsAll = each((column, row) => column.getByte(row))
  private val floats: ReadsAll = each((column, row) => bits(column.getFloat(row).toDouble))

  private trait ReadsRow { def apply(column: ColumnVector, row: Int): Long }
  private def each(read: ReadsRow): ReadsAll = (column, from, count, to, at) => {
    var row = 0
    while (row < count) { Platform.putLong(to, at + row * 8L, read(column, from + row)); row += 1 }
  }

  /** Vectors of Arrow refuse to tell what stands where there is null, and dictionaries have no entry for it. */
  private def tellsAll(column: ColumnVector): Boolean = !column.hasNull || (column match {
    case own: WritableColumnVector => !own.hasDictionary
    case _ => false
  })

  /** Values of 4 or 8 bytes. */
  private final class Fixed(kind: Int, read: Reads, all: ReadsAll) extends ColumnBuilder(kind) {
    private val width = ColumnBodies.width(kind)
    private val isAsUnsafe = all.eq(longs) || all.eq(doubles) || all.eq(days)

    /** The first rows are read when their place is known: where no others follow, that is the body. */
    private var first: ColumnVector = _
    private var firstFrom = 0

    override def addAll(column: ColumnVector, from: Int, count: Int): Unit =
      if (!tellsAll(column)) {
        settle()
        super.addAll(column, from, count)
      } else {
        if (rows == 0) {
          first = column
          firstFrom = from
        } else {
          settle()
          need(count * width)
          read(column, from, count, data, used)
        }
        used += count * width
        added(column, from, count)
      }

    override def settle(): Unit = if (first != null) {
      val size = used
      used = 0
      need(size)
      read(first, firstFrom, rows, data, 0)
      used = size
      first = null
    }

    private def read(column: ColumnVector, from: Int, count: Int, to: Array[Byte], at: Int): Unit = {
      all(column, from, count, to, base + at)
      if (column.hasNull) clearNulls(column, from, count, to, at)
    }

    /** What rows of others had left where there is null does not travel. */
    private def clearNulls(column: ColumnVector, from: Int, count: Int, to: Array[Byte], at: Int): Unit = {
      var row = 0
      while (row < count) {
        if (column.isNullAt(from + row)) Arrays.fill(to, at + row * width, at + (row + 1) * width, 0.toByte)
        row += 1
      }
    }

    override def reset(): Unit = {
      super.reset()
      first = null
    }

    override protected def writeParts(made: Array[Byte], at: Int): Unit =
      if (first == null) super.writeParts(made, at)
      else {
        read(first, firstFrom, rows, made, at)
        first = null
      }

    override def addItems(items: ArrayData): Unit = items match {
      case own: UnsafeArrayData if isAsUnsafe && !hasNullIn(own) =>
        val size = own.numElements() * width
        val front = UnsafeArrayData.calculateHeaderPortionInBytes(own.numElements())
        need(size)
        Platform.copyMemory(own.getBaseObject, own.getBaseOffset + front, data, base + used, size)
        used += size
        addedValid(own.numElements())
      case other => super.addItems(other)
    }

    private def hasNullIn(items: UnsafeArrayData): Boolean = {
      val words = UnsafeArrayData.calculateHeaderPortionInBytes(items.numElements()) / 8
      var word = 1 // behind the number of items
      while (word < words && Platform.getLong(items.getBaseObject, items.getBaseOffset + word * 8L) == 0) word += 1
      word < words
    }

    override def keep(count: Int): Unit = {
      settle()
      super.keep(count)
      used = count * width
    }
    override protected def addFilling(): Unit = put(0)
    override protected def addValue(from: SpecializedGetters, at: Int): Unit = put(read(from, at))
    private def put(value: Long): Unit = {
      need(width)
      if (width == 8) Platform.putLong(data, base + used, value) else Platform.putInt(data, base + used, value.toInt)
      used += width
    }
  }

  private final class Bits extends ColumnBuilder(ColumnBodies.Bool) {
    override def rowBits: Int = 1
    override def keep(count: Int): Unit = {
      super.keep(count)
      used = ColumnBodies.bitBytes(count)
      if ((count & 7) != 0) data(used - 1) = (data(used - 1) & ((1 << (count & 7)) - 1)).toByte
    }
    override protected def addFilling(): Unit = put(false)
    override protected def addValue(from: SpecializedGetters, at: Int): Unit = put(from.getBoolean(at))
    private def put(value: Boolean): Unit = {
      if ((rows & 7) == 0) {
        need(1)
        data(used) = 0
        used += 1
      }
      if (value) data(used - 1) = (data(used - 1) | (1 << (rows & 7))).toByte
    }
  }

  /** Rows of several values, which end where the next ones begin. */
  private sealed abstract class Several(kind: Int) extends ColumnBuilder(kind) {
    protected var ends = new Array[Int](129)
    override def rowBits: Int = 0
    override def size: Long = super.size + (rows + 1) * 4L
    protected def ended(end: Int): Unit = {
      if (rows + 1 >= ends.length) ends = Arrays.copyOf(ends, ends.length * 2)
      ends(rows + 1) = end
    }
    protected def offsetBytes: Int = ColumnBodies.filled((rows + 1) * 4)
    protected def writeOffsets(made: Array[Byte], at: Int): Unit = {
      Platform.copyMemory(ends, Platform.INT_ARRAY_OFFSET, made, base + at, (rows + 1) * 4L)
      if (ends.length > MostKept / 4) ends = new Array[Int](129)
    }
  }

  private final class Texts(kind: Int) extends Several(kind) {
    override def keep(count: Int): Unit = {
      super.keep(count)
      used = ends(count)
    }
    override protected def addFilling(): Unit = ended(used)
    override protected def addValue(from: SpecializedGetters, at: Int): Unit =
      if (kind == ColumnBodies.Utf8) {
        val text = from.getUTF8String(at)
        need(text.numBytes)
        text.writeToMemory(data, base + used)
        used += text.numBytes
        ended(used)
      } else addBytes(from.getBinary(at))
    private def addBytes(bytes: Array[Byte]): Unit = {
      need(bytes.length)
      System.arraycopy(bytes, 0, data, used, bytes.length)
      used += bytes.length
      ended(used)
    }
    /** One row, of bytes that are there. */
    def addRow(bytes: Array[Byte]): Unit = {
      addBytes(bytes)
      addedValid(1)
    }
    override protected def partsBytes: Long = offsetBytes.toLong + ColumnBodies.filled(used)
    override protected def writeParts(made: Array[Byte], at: Int): Unit = {
      writeOffsets(made, at)
      System.arraycopy(data, 0, made, at + offsetBytes, used)
    }
  }

  private final class Decimals(kind: DecimalType)
      extends ColumnBuilder(ColumnBodies.DecimalKind, kind.precision, kind.scale) {
    override def keep(count: Int): Unit = {
      super.keep(count)
      used = count * 16
    }
    override protected def addFilling(): Unit = put(0, 0)
    override protected def addValue(from: SpecializedGetters, at: Int): Unit = {
      val value = from.getDecimal(at, kind.precision, kind.scale)
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

  private def writeEach(inner: Seq[ColumnBuilder], made: Array[Byte], at: Int): Unit =
    inner.foldLeft(at) { (start, one) => one.write(made, start); start + one.bodyBytes.toInt }

  private final class Lists(items: ColumnBuilder) extends Several(ColumnBodies.ListKind) {
    override def reset(): Unit = { super.reset(); items.reset() }
    override def size: Long = super.size + items.size
    override def keep(count: Int): Unit = {
      super.keep(count)
      items.keep(ends(count))
    }
    override protected def addFilling(): Unit = ended(items.count)
    override protected def addValue(from: SpecializedGetters, at: Int): Unit = {
      items.addItems(from.getArray(at))
      ended(items.count)
    }
    override protected def partsBytes: Long = offsetBytes + items.bodyBytes
    override protected def writeParts(made: Array[Byte], at: Int): Unit = {
      writeOffsets(made, at)
      items.write(made, at + offsetBytes)
    }
  }

  private final class Maps(keys: ColumnBuilder, values: ColumnBuilder) extends Several(ColumnBodies.MapKind) {
    override def reset(): Unit = { super.reset(); keys.reset(); values.reset() }
    override def size: Long = super.size + keys.size + values.size
    override def keep(count: Int): Unit = {
      super.keep(count)
      keys.keep(ends(count))
      values.keep(ends(count))
    }
    override protected def addFilling(): Unit = ended(keys.count)
    override protected def addValue(from: SpecializedGetters, at: Int): Unit = {
      val map = from.getMap(at)
      keys.addItems(map.keyArray())
      values.addItems(map.valueArray())
      ended(keys.count)
    }
    override protected def partsBytes: Long = offsetBytes + keys.bodyBytes + values.bodyBytes
    override protected def writeParts(made: Array[Byte], at: Int): Unit = {
      writeOffsets(made, at)
      writeEach(Seq(keys, values), made, at + offsetBytes)
    }
  }

  private sealed abstract class Fields(names: Array[String], fields: Array[_ <: ColumnBuilder])
      extends ColumnBuilder(ColumnBodies.Struct) {
    private val said = {
      val made = new Texts(ColumnBodies.Utf8)
      names.foreach(name => made.addRow(name.getBytes(UTF_8)))
      made.body()
    }
    override def rowBits: Int = 0
    override def reset(): Unit = { super.reset(); fields.foreach(_.reset()) }
    override def size: Long = fields.foldLeft(super.size)(_ + _.size)
    override def keep(count: Int): Unit = {
      super.keep(count)
      fields.foreach(_.keep(count))
    }
    override protected def addFilling(): Unit = fields.foreach(_.addNothing())
    override protected def partsBytes: Long = fields.foldLeft(said.length.toLong)(_ + _.bodyBytes)
    override protected def writeParts(made: Array[Byte], at: Int): Unit = {
      System.arraycopy(said, 0, made, at, said.length)
      writeEach(fields.toSeq, made, at + said.length)
    }
  }

  private final class Structs(names: Array[String], fields: Array[ColumnBuilder]) extends Fields(names, fields) {
    override protected def addValue(from: SpecializedGetters, at: Int): Unit = {
      val row = from.getStruct(at, fields.length)
      var field = 0
      while (field < fields.length) { fields(field).add(row, field); field += 1 }
    }
  }

  private final class Variants(value: Texts, metadata: Texts)
      extends Fields(Array("value", "metadata"), Array(value, metadata)) {
    def this() = this(new Texts(ColumnBodies.Binary), new Texts(ColumnBodies.Binary))
    override protected def addValue(from: SpecializedGetters, at: Int): Unit = {
      val variant = from.getVariant(at)
      value.addRow(variant.getValue)
      metadata.addRow(variant.getMetadata)
    }
  }
}
