package speed.spark

import java.math.{BigDecimal => Digits, BigInteger}
import java.nio.{ByteBuffer, ByteOrder}
import java.time.{LocalDate, LocalTime}
import java.time.format.DateTimeFormatter
import java.time.temporal.ChronoField.NANO_OF_SECOND
import java.time.temporal.TemporalAccessor
import java.util.{Map => JavaMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.{BaseGenericInternalRow, GenericInternalRow}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import speed.columns.{Column, Kind}
import speed.errors.ExecutionFailedException

/** The rows of one promised column. */
sealed abstract class AnswerColumn {
  def isNull(row: Int): Boolean
  def hasNulls: Boolean
  def long(row: Int): Long = value(row).asInstanceOf[Long]
  def double(row: Int): Double = value(row).asInstanceOf[Double]

  /** As Spark keeps it; for a row that is not null. */
  def value(row: Int): Any
}

/** Rows of an answer, one at a time: a view that moves. */
final class AnswerRow(columns: Array[AnswerColumn]) extends BaseGenericInternalRow {
  var at = 0
  override def numFields: Int = columns.length
  override def isNullAt(ordinal: Int): Boolean = columns(ordinal).isNull(at)
  override def getLong(ordinal: Int): Long = columns(ordinal).long(at)
  override def getDouble(ordinal: Int): Double = columns(ordinal).double(at)
  override protected def genericGet(ordinal: Int): Any =
    if (columns(ordinal).isNull(at)) null else columns(ordinal).value(at)
  override def setNullAt(ordinal: Int): Unit = throw new UnsupportedOperationException
  override def update(ordinal: Int, value: Any): Unit = throw new UnsupportedOperationException
  override def copy(): GenericInternalRow = throw new UnsupportedOperationException
}

/** A value of the answer that is not as it was promised. */
final class Misfit(val row: Int, val why: String) extends RuntimeException(why, null, false, false)

/** Answers of a service as the columns that were promised to Spark. */
final class Answers(call: Call, types: Seq[DataType]) {
  private val names = call.promised.map(_.name)

  /** The promised columns, in their order, and how many rows they have; `rows` is how many are expected, or -1. */
  def of(answer: Any, rows: Int): (Array[AnswerColumn], Int) = {
    val byName = columns(answer)
    if (!call.named && byName.nonEmpty && !names.exists(byName.contains))
      failed(s"the answer has the columns ${listed(byName.keys)}, promised was one column")
    val lengths = byName.values.map(_.rows).toSet
    if (lengths.size > 1 || rows >= 0 && lengths.exists(_ != rows)) {
      val expected = if (rows < 0) "columns of one length" else s"$rows rows"
      failed(s"the answer has ${lengths.toSeq.sorted.mkString("[", ", ", "]")} rows, promised were $expected")
    }
    val there = lengths.headOption.getOrElse(math.max(rows, 0))
    try (call.promised.zip(types).map { case (field, kind) => made(byName.get(field.name), field, kind, there) }.toArray, there)
    catch { case misfit: Misfit => throw misfitted(misfit, rows < 0) }
  }

  private def misfitted(misfit: Misfit, anyRows: Boolean): ExecutionFailedException = {
    val row: Object = java.lang.Long.valueOf(misfit.row)
    if (anyRows) new ExecutionFailedException(s"row ${misfit.row} of the answer: ${misfit.why}", JavaMap.of("row_of_answer", row))
    else new ExecutionFailedException(misfit.why, JavaMap.of("row", row))
  }

  /** Rows that all answered with nothing are one column, though they would have been a map. */
  private def columns(answer: Any): Map[String, Column] = answer match {
    case one: Column if names.size == 1 || Conversion.isNull(one) => names.map(_ -> one).toMap
    case several: JavaMap[_, _] if several.values.asScala.forall(_.isInstanceOf[Column]) =>
      several.asScala.map { case (name, column) => name.toString -> column.asInstanceOf[Column] }.toMap
    case other => failed(s"the answer is ${said(other)}, promised were columns ${listed(names)}")
  }

  private def made(column: Option[Column], field: Promise, kind: DataType, rows: Int): AnswerColumn = {
    val made = try column.map(Conversion.to(_, kind, field.said)).getOrElse(Conversion.Nulls) catch {
      case misfit: Misfit => throw new Misfit(misfit.row, s"the answer for '${field.name}' ${misfit.why}")
    }
    if (!field.nullable) (0 until rows).find(made.isNull).foreach { row =>
      val missing = if (column.isEmpty) "nothing" else "null"
      throw new Misfit(row, s"the answer for '${field.name}' is $missing, which was promised NOT NULL")
    }
    made
  }

  private def failed(text: String): Nothing = throw new ExecutionFailedException(text)
  private def listed(names: Iterable[String]): String = names.map(name => s"'$name'").mkString("[", ", ", "]")

  private def said(answer: Any): String = answer match {
    case null => "NoneType"
    case _: Column => "one column"
    case _: JavaMap[_, _] => "dict"
    case _: java.util.List[_] => "list"
    case _: String => "str"
    case _: java.lang.Boolean => "bool"
    case _: java.lang.Double => "float"
    case _: java.lang.Number => "int"
    case _: Array[Byte] => "bytes"
    case other => other.getClass.getSimpleName
  }
}

/** A column as rows of a type of Spark: read where it lies if it is of that type, else value by value. */
object Conversion {
  private val mostExact = 1L << 53

  def isNull(column: Column): Boolean = (0 until column.rows).forall(column.isNull)

  def to(column: Column, kind: DataType, said: String): AnswerColumn = (column.kind, kind) match {
    case (Kind.INT64 | Kind.DURATION, LongType) | (Kind.TIMESTAMP, TimestampType) => new Longs(column)
    case (Kind.LOCAL_TIMESTAMP, TimestampNTZType) | (Kind.DURATION, _: DayTimeIntervalType) => new Longs(column)
    case (Kind.DATE, DateType) => new Converted(column, day => day.asInstanceOf[LocalDate].toEpochDay.toInt)
    case (Kind.DATE | Kind.TIME | Kind.LOCAL_TIMESTAMP, StringType) =>
      new Converted(column, moment => UTF8String.fromString(iso(moment.asInstanceOf[TemporalAccessor])))
    case (Kind.FLOAT64, DoubleType) => new Doubles(column)
    case (Kind.UTF8, StringType) | (Kind.BINARY, BinaryType) => new Texts(column)
    case (Kind.DECIMAL, decimal: DecimalType) if column.precision == decimal.precision && column.scale == decimal.scale =>
      new Converted(column, value => Decimal(new scala.math.BigDecimal(value.asInstanceOf[Digits]), decimal.precision, decimal.scale))
    case (Kind.BOOL, BooleanType) => new Converted(column, identity)
    case (came, _) if isNumber(came) && isNumber(kind) => new Converted(column, number(_, kind, said))
    case _ if isNull(column) => Nulls
    case (came, _) => throw new Misfit((0 until column.rows).find(!column.isNull(_)).get, s"is ${this.said(came)}, which $said does not hold")
  }

  private def isNumber(kind: Kind): Boolean = kind == Kind.INT64 || kind == Kind.FLOAT64 || kind == Kind.DECIMAL
  private def isNumber(kind: DataType): Boolean = kind.isInstanceOf[NumericType]

  /** Digits after the second come six at a time, as Python writes them. */
  private def iso(moment: TemporalAccessor): String = {
    val hasFraction = moment.isSupported(NANO_OF_SECOND) && moment.get(NANO_OF_SECOND) != 0
    val time = if (hasFraction) "HH:mm:ss.SSSSSS" else "HH:mm:ss"
    moment match {
      case day: LocalDate => day.toString
      case _: LocalTime => DateTimeFormatter.ofPattern(time).format(moment)
      case _ => DateTimeFormatter.ofPattern(s"uuuu-MM-dd'T'$time").format(moment)
    }
  }

  private def said(kind: Kind): String = kind match {
    case Kind.INT64 => "an integer"
    case Kind.FLOAT64 => "a float"
    case Kind.BOOL => "a boolean"
    case Kind.UTF8 => "text"
    case Kind.BINARY => "bytes"
    case Kind.TIMESTAMP => "an instant"
    case Kind.DECIMAL => "a decimal"
    case Kind.DATE => "a date"
    case Kind.TIME => "a time of day"
    case Kind.LOCAL_TIMESTAMP => "a date and time without a zone"
    case Kind.DURATION => "a duration"
    case Kind.MONTHS => "a number of months"
    case Kind.LIST => "a list"
    case Kind.STRUCT => "a struct"
    case Kind.MAP => "a map"
  }

  object Nulls extends AnswerColumn {
    override def isNull(row: Int): Boolean = true
    override def hasNulls: Boolean = true
    override def value(row: Int): Any = null
  }

  /** Whether rows may be null is one of the first bytes of a body. */
  private sealed abstract class OfColumn(column: Column) extends AnswerColumn {
    override val hasNulls: Boolean = column.body.get(1) == 1
    override def isNull(row: Int): Boolean = hasNulls && column.isNull(row)
  }

  private final class Longs(column: Column) extends OfColumn(column) {
    private val values = new Array[Long](column.rows)
    column.longs.get(values)
    override def long(row: Int): Long = values(row)
    override def value(row: Int): Any = values(row)
  }

  private final class Doubles(column: Column) extends OfColumn(column) {
    private val values = new Array[Double](column.rows)
    column.doubles.get(values)
    override def double(row: Int): Double = values(row)
    override def value(row: Int): Any = values(row)
  }

  private final class Texts(column: Column) extends OfColumn(column) {
    import ColumnBodies._
    private val isText = column.kind == Kind.UTF8
    private val body: ByteBuffer = column.body.order(ByteOrder.LITTLE_ENDIAN)
    private val offsets = HeaderBytes + (if (body.get(1) == 1) filled(bitBytes(column.rows)) else 0)
    private val data = new Array[Byte](offset(column.rows))
    body.get(offsets + filled((column.rows + 1) * 4), data)
    private def offset(row: Int): Int = body.getInt(offsets + row * 4)
    override def value(row: Int): Any = {
      val (start, end) = (offset(row), offset(row + 1))
      if (isText) UTF8String.fromBytes(data, start, end - start) else java.util.Arrays.copyOfRange(data, start, end)
    }
  }

  /** All rows are converted at once, so that the first that does not fit is named before any is used. */
  private final class Converted(column: Column, convert: Any => Any) extends OfColumn(column) {
    private val values = new Array[Any](column.rows)
    for (row <- values.indices) {
      val value = column.get(row)
      if (value != null) values(row) = try convert(value) catch { case why: Unfit => throw new Misfit(row, why.getMessage) }
    }
    override def isNull(row: Int): Boolean = values(row) == null
    override def value(row: Int): Any = values(row)
  }

  private object Whole {
    def unapply(kind: DataType): Boolean = kind match {
      case ByteType | ShortType | IntegerType | LongType => true
      case _ => false
    }
  }

  private final class Unfit(why: String) extends RuntimeException(why, null, false, false)

  private def number(value: Any, kind: DataType, said: String): Any = {
    val made = (value, kind) match {
      case (number: Double, DoubleType) => number
      case (number: Double, FloatType) =>
        if (number.toFloat.isInfinite && !number.isInfinite) throw new Unfit(s"is beyond the range of $said")
        number.toFloat
      case (number: Double, Whole()) =>
        if (number != number.toLong || math.abs(number) > mostExact) null else whole(BigInteger.valueOf(number.toLong), kind)
      case (number: Double, decimal: DecimalType) =>
        if (number.isNaN || number.isInfinite) null else fixed(new Digits(number.toString), decimal)
      case (number: Long, Whole()) => whole(BigInteger.valueOf(number), kind)
      case (number: Long, decimal: DecimalType) => fixed(Digits.valueOf(number), decimal)
      case (number: Long, _) => floating(Digits.valueOf(number), kind, exact = true)
      case (number: Digits, Whole()) =>
        if (number.signum != 0 && number.stripTrailingZeros.scale > 0) null else whole(number.toBigInteger, kind)
      case (number: Digits, decimal: DecimalType) => fixed(number, decimal)
      case (number: Digits, _) => floating(number, kind, exact = false)
      case _ => null
    }
    if (made == null) throw new Unfit(s"is ${named(value)} that $said does not hold")
    made
  }

  private def named(value: Any): String = value match {
    case _: Long => "an integer"
    case _: Double => "a float"
    case _ => "a decimal"
  }

  private def whole(number: BigInteger, kind: DataType): Any = kind match {
    case LongType if number.bitLength < 64 => number.longValue
    case IntegerType if number.bitLength < 32 => number.intValue
    case ShortType if number.bitLength < 16 => number.shortValue
    case ByteType if number.bitLength < 8 => number.byteValue
    case _ => null
  }

  private def fixed(number: Digits, kind: DecimalType): Any =
    try {
      val exact = number.setScale(kind.scale)
      if (exact.precision > kind.precision) null
      else Decimal(new scala.math.BigDecimal(exact), kind.precision, kind.scale)
    } catch { case _: ArithmeticException => null }

  /** An integer that loses no digit; a decimal whose digits are those by which the float is written. */
  private def floating(number: Digits, kind: DataType, exact: Boolean): Any = {
    def keeps(value: Double, text: String) =
      !value.isInfinite && (if (exact) new Digits(value) else new Digits(text)).compareTo(number) == 0
    kind match {
      case DoubleType => val value = number.doubleValue; if (keeps(value, value.toString)) value else null
      case FloatType => val value = number.floatValue; if (keeps(value.toDouble, value.toString)) value else null
      case _ => null
    }
  }
}
