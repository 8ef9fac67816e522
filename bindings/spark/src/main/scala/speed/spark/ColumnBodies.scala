package speed.spark

import java.io.ByteArrayOutputStream

import org.apache.spark.sql.types._
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
  val Time = 9
  val LocalTimestamp = 10
  val Duration = 11
  val Months = 12
  val ListKind = 13
  val Struct = 14
  val MapKind = 15
  val HeaderBytes = 8
  private val mostDepth = 32
  private val base = Platform.BYTE_ARRAY_OFFSET.toLong

  /** Whether a column may hold values of a type; the others are left to Python, whose errors say what to do. */
  def isKnown(kind: DataType, depth: Int = 1): Boolean = depth <= mostDepth && (kind match {
    case ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType | BooleanType | StringType | BinaryType => true
    case TimestampType | TimestampNTZType | DateType | _: DayTimeIntervalType | _: TimeType => true
    case decimal: DecimalType => decimal.scale >= 0
    case list: ArrayType => isKnown(list.elementType, depth + 1)
    case map: MapType => isKnown(map.keyType, depth + 1) && isKnown(map.valueType, depth + 1)
    case _: VariantType => depth < mostDepth
    case struct: StructType =>
      struct.nonEmpty && struct.names.distinct.length == struct.length && struct.forall(one => isKnown(one.dataType, depth + 1))
    case _ => false
  })

  /** A value takes at most so many times the bytes that it has in a row of Spark: small integers in lists are widened, and a
   *  struct that is null has a place in each of its fields. */
  def widening(kind: DataType): Int = kind match {
    case _: ArrayType | _: MapType | _: StructType => math.max(8, 2 * parts(kind))
    case _ => 1
  }

  private def parts(kind: DataType): Int = kind match {
    case list: ArrayType => 1 + parts(list.elementType)
    case map: MapType => 1 + parts(map.keyType) + parts(map.valueType)
    case struct: StructType => 1 + struct.map(one => parts(one.dataType)).sum
    case _ => 2
  }

  def filled(size: Int): Int = (size + 7) & ~7
  def bitBytes(rows: Int): Int = (rows + 7) >> 3
  def width(kind: Int): Int = if (kind == DecimalKind) 16 else if (kind == Date || kind == Months) 4 else 8
  def rowsOf(body: Array[Byte]): Int = int(body, 4)
  def bit(body: Array[Byte], at: Int, row: Int): Boolean = (body(at + (row >> 3)) >> (row & 7) & 1) != 0
  def int(body: Array[Byte], at: Int): Int = Platform.getInt(body, base + at)

  def header(body: Array[Byte], at: Int, kind: Int, hasNulls: Boolean, precision: Int, scale: Int, rows: Int): Unit = {
    body(at) = kind.toByte
    body(at + 1) = if (hasNulls) 1 else 0
    body(at + 2) = precision.toByte
    body(at + 3) = scale.toByte
    Platform.putInt(body, base + at + 4, rows)
  }

  /** Rows `from` to `until` of a column, as a body of their own. */
  def slice(body: Array[Byte], from: Int, until: Int): Array[Byte] = {
    val made = new ByteArrayOutputStream()
    new Body(body, 0).write(made, from, until)
    made.toByteArray
  }

  /** A body that is known to keep the rules, in others or alone. */
  private final class Body(bytes: Array[Byte], start: Int) {
    private val kind = bytes(start).toInt
    private val hasNulls = bytes(start + 1) == 1
    private val rows = int(bytes, start + 4)
    private val hasOffsets = kind == Utf8 || kind == Binary || kind == ListKind || kind == MapKind
    private val parts = start + HeaderBytes + (if (hasNulls) filled(bitBytes(rows)) else 0)
    private val data = parts + (if (hasOffsets) filled((rows + 1) * 4) else 0)
    private def offset(row: Int) = int(bytes, parts + row * 4)

    private lazy val inner: Seq[Body] = kind match {
      case ListKind => Seq(new Body(bytes, data))
      case MapKind => behind(new Body(bytes, data), 2)
      case Struct => behind(new Body(bytes, data), 1 + int(bytes, data + 4))
      case _ => Nil
    }
    private def behind(first: Body, count: Int) = Seq.iterate(first, count)(before => new Body(bytes, before.end))

    private def end: Int = kind match {
      case ListKind | Struct | MapKind => inner.last.end
      case Utf8 | Binary => data + filled(offset(rows))
      case Bool => data + filled(bitBytes(rows))
      case _ => data + filled(rows * width(kind))
    }

    def write(made: ByteArrayOutputStream, from: Int, until: Int): Unit = {
      val front = new Array[Byte](HeaderBytes)
      header(front, 0, kind, hasNulls, bytes(start + 2), bytes(start + 3), until - from)
      made.write(front)
      if (hasNulls) writeBits(made, start + HeaderBytes, from, until)
      val (first, last) = if (hasOffsets) (offset(from), offset(until)) else (from, until)
      if (hasOffsets) writeOffsets(made, from, until)
      kind match {
        case ListKind | MapKind => inner.foreach(_.write(made, first, last))
        case Struct =>
          inner.head.write(made, 0, inner.head.rows)
          inner.tail.foreach(_.write(made, first, last))
        case Utf8 | Binary => writeFilled(made, data + first, last - first)
        case Bool => writeBits(made, data, first, last)
        case _ => writeFilled(made, data + first * width(kind), (last - first) * width(kind))
      }
    }

    private def writeOffsets(made: ByteArrayOutputStream, from: Int, until: Int): Unit = {
      val offsets = new Array[Byte](filled((until - from + 1) * 4))
      for (row <- from to until) Platform.putInt(offsets, base + (row - from) * 4, offset(row) - offset(from))
      made.write(offsets)
    }

    private def writeBits(made: ByteArrayOutputStream, at: Int, from: Int, until: Int): Unit = {
      val bits = new Array[Byte](filled(bitBytes(until - from)))
      for (row <- from until until if bit(bytes, at, row))
        bits(row - from >> 3) = (bits(row - from >> 3) | 1 << (row - from & 7)).toByte
      made.write(bits)
    }

    private def writeFilled(made: ByteArrayOutputStream, at: Int, size: Int): Unit = {
      made.write(bytes, at, size)
      made.write(new Array[Byte](filled(size) - size))
    }
  }
}
