package speed.spark

import java.math.{BigDecimal => Digits, BigInteger}
import java.nio.{ByteBuffer, ByteOrder}

import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray, ColumnarMap}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String
import speed.columns.Column

/** A column that others hold: it is closed by them. */
abstract class ColumnView(kind: DataType, rows: Int) extends ColumnVector(kind) {
  override def close(): Unit = ()
  override def closeIfFreeable(): Unit = ()
  override def numNulls: Int = if (hasNull) (0 until rows).count(isNullAt) else 0
}

/** Some rows of a column. */
final class SomeRows(inner: ColumnVector, from: Int, rows: Int) extends ColumnView(inner.dataType, rows) {
  override def hasNull: Boolean = inner.hasNull
  override def isNullAt(row: Int): Boolean = inner.isNullAt(from + row)
  override def getBoolean(row: Int): Boolean = inner.getBoolean(from + row)
  override def getByte(row: Int): Byte = inner.getByte(from + row)
  override def getShort(row: Int): Short = inner.getShort(from + row)
  override def getInt(row: Int): Int = inner.getInt(from + row)
  override def getLong(row: Int): Long = inner.getLong(from + row)
  override def getFloat(row: Int): Float = inner.getFloat(from + row)
  override def getDouble(row: Int): Double = inner.getDouble(from + row)
  override def getArray(row: Int): ColumnarArray = inner.getArray(from + row)
  override def getMap(row: Int): ColumnarMap = inner.getMap(from + row)
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = inner.getDecimal(from + row, precision, scale)
  override def getUTF8String(row: Int): UTF8String = inner.getUTF8String(from + row)
  override def getBinary(row: Int): Array[Byte] = inner.getBinary(from + row)
  override def getChild(ordinal: Int): ColumnVector = new SomeRows(inner.getChild(ordinal), from, rows)
}

/** Rows of a promised column, or of what lies in one. Each class tells the values of its own types. */
sealed abstract class AnswerColumn(kind: DataType, val rows: Int) extends ColumnView(kind, rows) {
  override def getBoolean(row: Int): Boolean = none
  override def getByte(row: Int): Byte = none
  override def getShort(row: Int): Short = none
  override def getInt(row: Int): Int = none
  override def getLong(row: Int): Long = none
  override def getFloat(row: Int): Float = none
  override def getDouble(row: Int): Double = none
  override def getArray(row: Int): ColumnarArray = none
  override def getMap(row: Int): ColumnarMap = none
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = none
  override def getUTF8String(row: Int): UTF8String = none
  override def getBinary(row: Int): Array[Byte] = none
  override def getChild(ordinal: Int): ColumnVector = none
  private def none: Nothing = throw new UnsupportedOperationException(s"a column of ${kind.simpleString} has none")
}

/** Of any type, and nulls alone. */
final class NullColumn(kind: DataType, rows: Int) extends AnswerColumn(kind, rows) {
  override def hasNull: Boolean = true
  override def isNullAt(row: Int): Boolean = true
  override def getArray(row: Int): ColumnarArray = null
  override def getMap(row: Int): ColumnarMap = null
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = null
  override def getUTF8String(row: Int): UTF8String = null
  override def getBinary(row: Int): Array[Byte] = null
  override def getChild(ordinal: Int): ColumnVector = kind match {
    case struct: StructType => new NullColumn(struct(ordinal).dataType, rows)
    case _ => new NullColumn(BinaryType, rows) // of a variant
  }
}

/** With the nulls of a column. Whether there may be some is one of the first bytes of a body. */
sealed abstract class OfColumn(column: Column, kind: DataType) extends AnswerColumn(kind, column.rows) {
  override val hasNull: Boolean = column.body.get(1) == 1
  override def isNullAt(row: Int): Boolean = hasNull && column.isNull(row)
}

/** Whole numbers of 64 bits, as they are, or of fewer, which they fit. */
final class LongColumn(column: Column, kind: DataType) extends OfColumn(column, kind) {
  private val values = new Array[Long](rows)
  column.longs.get(values)
  override def getLong(row: Int): Long = values(row)
  override def getInt(row: Int): Int = values(row).toInt
  override def getShort(row: Int): Short = values(row).toShort
  override def getByte(row: Int): Byte = values(row).toByte
  override def getLongs(from: Int, count: Int): Array[Long] = java.util.Arrays.copyOfRange(values, from, from + count)
}

/** Times of day, which Spark has in nanoseconds. */
final class TimeColumn(column: Column, kind: DataType) extends OfColumn(column, kind) {
  private val micros = column.longs
  override def getLong(row: Int): Long = micros.get(row) * 1000
}

final class DateColumn(column: Column, kind: DataType) extends OfColumn(column, kind) {
  private val days = column.ints
  override def getInt(row: Int): Int = days.get(row)
}

final class DoubleColumn(column: Column, kind: DataType) extends OfColumn(column, kind) {
  private val values = new Array[Double](rows)
  column.doubles.get(values)
  override def getDouble(row: Int): Double = values(row)
  override def getDoubles(from: Int, count: Int): Array[Double] = java.util.Arrays.copyOfRange(values, from, from + count)
}

/** What stands behind header and validity of a body. */
sealed abstract class OfBody(column: Column, kind: DataType) extends OfColumn(column, kind) {
  protected val body: ByteBuffer = column.body.order(ByteOrder.LITTLE_ENDIAN)
  protected val parts: Int = ColumnBodies.HeaderBytes + (if (hasNull) ColumnBodies.filled(ColumnBodies.bitBytes(rows)) else 0)
}

final class BooleanColumn(column: Column, kind: DataType) extends OfBody(column, kind) {
  override def getBoolean(row: Int): Boolean = (body.get(parts + (row >> 3)) >> (row & 7) & 1) != 0
}

/** Of the promised digits. */
final class DecimalColumn(column: Column, kind: DecimalType) extends OfBody(column, kind) {
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal =
    if (isNullAt(row)) null
    else if (kind.precision <= Decimal.MAX_LONG_DIGITS) Decimal.createUnsafe(body.getLong(parts + row * 16), precision, scale)
    else Decimal(new scala.math.BigDecimal(new Digits(whole(row), kind.scale)), precision, scale)

  private val limit = BigInteger.TEN.pow(kind.precision)
  private val surely = limit.shiftRight(64).longValue

  /** Whether it has more digits than its precision. */
  def isBeyond(row: Int): Boolean = {
    val high = body.getLong(parts + row * 16 + 8)
    (high < -surely || high >= surely) && whole(row).abs.compareTo(limit) >= 0
  }

  private def whole(row: Int): BigInteger =
    new BigInteger(ByteBuffer.allocate(16).putLong(body.getLong(parts + row * 16 + 8)).putLong(body.getLong(parts + row * 16)).array)
}

/** Text or bytes. */
final class TextColumn(column: Column, kind: DataType) extends OfBody(column, kind) {
  private val offsets = new Array[Int](rows + 1)
  body.position(parts).slice().order(ByteOrder.LITTLE_ENDIAN).asIntBuffer.get(offsets)
  private val data = new Array[Byte](offsets(rows))
  body.get(parts + ColumnBodies.filled((rows + 1) * 4), data)
  override def getUTF8String(row: Int): UTF8String =
    if (isNullAt(row)) null
    else UTF8String.fromAddress(data, Platform.BYTE_ARRAY_OFFSET.toLong + offsets(row), offsets(row + 1) - offsets(row))
  override def getBinary(row: Int): Array[Byte] =
    if (isNullAt(row)) null else java.util.Arrays.copyOfRange(data, offsets(row), offsets(row + 1))
}

/** Values that were converted one by one, as Spark keeps them. */
final class ConvertedColumn(values: Array[Any], kind: DataType) extends AnswerColumn(kind, values.length) {
  override val hasNull: Boolean = values.contains(null)
  override def isNullAt(row: Int): Boolean = values(row) == null
  override def getByte(row: Int): Byte = value(row)
  override def getShort(row: Int): Short = value(row)
  override def getInt(row: Int): Int = value(row)
  override def getLong(row: Int): Long = value(row)
  override def getFloat(row: Int): Float = value(row)
  override def getDouble(row: Int): Double = value(row)
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = value(row)
  override def getUTF8String(row: Int): UTF8String = value(row)
  private def value[T](row: Int): T = values(row).asInstanceOf[T]
}

final class ListColumn(column: Column, items: AnswerColumn, kind: DataType) extends OfColumn(column, kind) {
  override def getArray(row: Int): ColumnarArray =
    if (isNullAt(row)) null else new ColumnarArray(items, column.offset(row), column.offset(row + 1) - column.offset(row))
}

final class MapColumn(column: Column, keys: AnswerColumn, values: AnswerColumn, kind: DataType) extends OfColumn(column, kind) {
  override def getMap(row: Int): ColumnarMap =
    if (isNullAt(row)) null
    else new ColumnarMap(keys, values, column.offset(row), column.offset(row + 1) - column.offset(row))
}

/** Promised fields, or the two parts of a variant. */
final class StructColumn(column: Column, fields: Array[AnswerColumn], kind: DataType) extends OfColumn(column, kind) {
  override def getChild(ordinal: Int): ColumnVector = fields(ordinal)
}

/** Several columns as one of structs, none of which is null. */
final class Together(fields: Array[ColumnVector], kind: StructType, rows: Int) extends AnswerColumn(kind, rows) {
  override def hasNull: Boolean = false
  override def isNullAt(row: Int): Boolean = false
  override def getChild(ordinal: Int): ColumnVector = fields(ordinal)
}

/** Values of maps by one key: where they lie among all values, -1 where a map has none of that key. */
final class PickedColumn(values: AnswerColumn, places: Array[Int], kind: DataType) extends AnswerColumn(kind, places.length) {
  override val hasNull: Boolean = places.exists(at => at < 0 || values.isNullAt(at))
  override def isNullAt(row: Int): Boolean = places(row) < 0 || values.isNullAt(places(row))
  override def getBoolean(row: Int): Boolean = values.getBoolean(places(row))
  override def getByte(row: Int): Byte = values.getByte(places(row))
  override def getShort(row: Int): Short = values.getShort(places(row))
  override def getInt(row: Int): Int = values.getInt(places(row))
  override def getLong(row: Int): Long = values.getLong(places(row))
  override def getFloat(row: Int): Float = values.getFloat(places(row))
  override def getDouble(row: Int): Double = values.getDouble(places(row))
  override def getArray(row: Int): ColumnarArray = orNull(row, values.getArray)
  override def getMap(row: Int): ColumnarMap = orNull(row, values.getMap)
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = orNull(row, values.getDecimal(_, precision, scale))
  override def getUTF8String(row: Int): UTF8String = orNull(row, values.getUTF8String)
  override def getBinary(row: Int): Array[Byte] = orNull(row, values.getBinary)
  override def getChild(ordinal: Int): ColumnVector =
    new PickedColumn(values.getChild(ordinal).asInstanceOf[AnswerColumn], places, values.getChild(ordinal).dataType)
  private def orNull[T >: Null](row: Int, read: Int => T): T = if (places(row) < 0) null else read(places(row))
}

