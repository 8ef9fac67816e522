package speed.spark

import java.math.{BigDecimal => Digits, BigInteger}
import java.time.{DateTimeException, LocalDate, LocalTime}
import java.time.format.DateTimeFormatter
import java.time.temporal.ChronoField.NANO_OF_SECOND
import java.time.temporal.TemporalAccessor
import java.util.BitSet

import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import speed.columns.{Column, Kind}

/** A column as rows of a type of Spark: read where it lies if it is of that type, else value by value. What lies in
 *  `absent` rows has no meaning, as in a field of a struct that is null; null: all are there. */
object Conversion {
  private val mostExact = 1L << 53
  private val microsOfDay = 24L * 60 * 60 * 1000000

  def isNull(column: Column): Boolean = (0 until column.rows).forall(column.isNull)

  def to(column: Column, kind: DataType, promise: Promise, absent: BitSet = null): AnswerColumn = {
    def converted(convert: Any => Any) = Conversion.converted(column, kind, absent, convert)
    (column.kind, kind) match {
      case (Kind.INT64 | Kind.DURATION, LongType) | (Kind.TIMESTAMP, TimestampType) => new LongColumn(column, kind)
      case (Kind.LOCAL_TIMESTAMP, TimestampNTZType) | (Kind.DURATION, _: DayTimeIntervalType) => new LongColumn(column, kind)
      case (Kind.INT64, Whole(bits)) => fitting(column, kind, promise, absent, bits)
      case (Kind.DATE, DateType) => new DateColumn(column, kind)
      case (Kind.TIME, _: TimeType) => withinDay(column, kind, promise, absent)
      case (Kind.DATE | Kind.TIME | Kind.LOCAL_TIMESTAMP, StringType) =>
        converted(moment => UTF8String.fromString(iso(moment.asInstanceOf[TemporalAccessor])))
      case (Kind.FLOAT64, DoubleType) => new DoubleColumn(column, kind)
      case (Kind.UTF8, StringType) | (Kind.BINARY, BinaryType) => new TextColumn(column, kind)
      case (Kind.BOOL, BooleanType) => new BooleanColumn(column, kind)
      case (Kind.DECIMAL, decimal: DecimalType) if column.precision == decimal.precision && column.scale == decimal.scale =>
        withinDigits(new DecimalColumn(column, decimal), column, promise, absent)
      case (came, _: NumericType) if isNumber(came) => converted(number(_, kind, promise.said))
      case (Kind.LIST, list: ArrayType) => lists(column, list, promise, absent)
      case (Kind.MAP, map: MapType) => maps(column, map, promise, absent)
      case (Kind.MAP, struct: StructType) => new StructColumn(column, byKeys(column, struct, promise, absent), kind)
      case (Kind.STRUCT, struct: StructType) => new StructColumn(column, fields(column, struct.map(_.dataType), promise, absent), kind)
      case (Kind.STRUCT, _: VariantType) =>
        new StructColumn(column, fields(column, Seq(BinaryType, BinaryType), promise, absent), kind)
      case (came, _) =>
        first(column, absent, !column.isNull(_)).foreach { row =>
          throw new Misfit(row, s"is ${this.said(came)}, which ${promise.said} does not hold")
        }
        new NullColumn(kind, column.rows)
    }
  }

  /** The first row that is there and for which this holds. */
  private def first(column: Column, absent: BitSet, holds: Int => Boolean): Option[Int] =
    (0 until column.rows).find(row => (absent == null || !absent.get(row)) && holds(row))

  /** What lies in a list or a map, or in a field, and is not null where that is promised. */
  private def inner(column: Column, kind: DataType, promise: Promise, absent: BitSet): AnswerColumn = {
    val made = to(column, kind, promise, absent)
    if (!promise.nullable && made.hasNull)
      first(column, absent, made.isNullAt).foreach(row => throw new Misfit(row, "is null, and declared NOT NULL"))
    made
  }

  private def lists(column: Column, kind: ArrayType, promise: Promise, absent: BitSet): AnswerColumn =
    new ListColumn(column, items(column, 0, kind.elementType, promise, absentItems(column, absent)), kind)

  private def maps(column: Column, kind: MapType, promise: Promise, absent: BitSet): AnswerColumn = {
    val left = absentItems(column, absent)
    new MapColumn(column, items(column, 0, kind.keyType, promise, left), items(column, 1, kind.valueType, promise, left), kind)
  }

  private def items(column: Column, child: Int, kind: DataType, promise: Promise, absent: BitSet): AnswerColumn =
    try inner(column.children.get(child), kind, promise.inner(child), absent)
    catch { case misfit: Misfit => throw misfit.inside(promise.inner(child).name, rowOf(column, misfit.row)) }

  private def rowOf(column: Column, item: Int): Int = (0 until column.rows).find(row => column.offset(row + 1) > item).get

  /** Items of rows that are null or absent; null if there are none. */
  private def absentItems(column: Column, absent: BitSet): BitSet = {
    val rows = absentRows(column, absent)
    if (rows == null) null
    else {
      val made = new BitSet()
      rows.stream.forEach(row => made.set(column.offset(row), column.offset(row + 1)))
      if (made.isEmpty) null else made
    }
  }

  private def absentRows(column: Column, absent: BitSet): BitSet =
    if (column.body.get(1) == 0) absent
    else {
      val made = if (absent == null) new BitSet() else absent.clone.asInstanceOf[BitSet]
      (0 until column.rows).foreach(row => if (column.isNull(row)) made.set(row))
      made
    }

  private def fields(column: Column, kinds: Seq[DataType], promise: Promise, absent: BitSet): Array[AnswerColumn] = {
    val there = column.names
    val left = absentRows(column, absent)
    kinds.zip(promise.inner).map { case (kind, field) =>
      val at = there.indexOf(field.name)
      try if (at >= 0) inner(column.children.get(at), kind, field, left) else missing(column, kind, field, left)
      catch { case misfit: Misfit => throw misfit.inside(field.name) }
    }.toArray
  }

  private def missing(column: Column, kind: DataType, field: Promise, absent: BitSet): AnswerColumn = {
    if (!field.nullable)
      first(column, absent, _ => true).foreach(row => throw new Misfit(row, "is null, and declared NOT NULL"))
    new NullColumn(kind, column.rows)
  }

  /** The fields of structs that come as maps: of a map's values, only those of the promised keys are read. */
  private def byKeys(column: Column, struct: StructType, promise: Promise, absent: BitSet): Array[AnswerColumn] = {
    val (keys, values, left) = (column.children.get(0), column.children.get(1), absentRows(column, absent))
    val places = new Places(column, keys, left)
    struct.zip(promise.inner).map { case (kind, field) =>
      val at = places.of(field.name)
      val others = new BitSet()
      others.set(0, values.rows)
      at.foreach(place => if (place >= 0) others.clear(place))
      val read = try to(values, kind.dataType, field, others) catch {
        case misfit: Misfit => throw misfit.inside(field.name, at.indexOf(misfit.row))
      }
      val made = new PickedColumn(read, at, kind.dataType)
      if (!field.nullable && made.hasNull)
        first(column, left, made.isNullAt).foreach(row => throw new Misfit(row, "is null, and declared NOT NULL", field.name))
      made
    }.toArray
  }

  /** Where the values of maps lie, by key. A key that a row has twice is refused. */
  private final class Places(column: Column, keys: Column, absent: BitSet) {
    private val places = new java.util.HashMap[Any, Array[Int]]()
    for (row <- 0 until column.rows if absent == null || !absent.get(row); at <- column.offset(row) until column.offset(row + 1))
      note(row, at)

    private def note(row: Int, at: Int): Unit = {
      val of = places.computeIfAbsent(keys.get(at), _ => Array.fill(column.rows)(-1))
      if (of(row) >= 0) throw new Misfit(row, "holds a key twice")
      of(row) = at
    }

    def of(name: String): Array[Int] = Option(places.get(name)).getOrElse(Array.fill(column.rows)(-1))
  }

  /** Whole numbers in a type of fewer bits. */
  private def fitting(column: Column, kind: DataType, promise: Promise, absent: BitSet, bits: Int): AnswerColumn = {
    val values = column.longs
    def isBeyond(row: Int) = { val value = values.get(row); value != value << (64 - bits) >> (64 - bits) }
    first(column, absent, row => isBeyond(row) && !column.isNull(row)).foreach { row =>
      throw new Misfit(row, s"is an integer that ${promise.said} does not hold")
    }
    new LongColumn(column, kind)
  }

  private def withinDigits(made: DecimalColumn, column: Column, promise: Promise, absent: BitSet): AnswerColumn = {
    first(column, absent, row => !made.isNullAt(row) && made.isBeyond(row)).foreach { row =>
      throw new Misfit(row, s"is a decimal that ${promise.said} does not hold")
    }
    made
  }

  private def withinDay(column: Column, kind: DataType, promise: Promise, absent: BitSet): AnswerColumn = {
    val micros = column.longs
    def isBeyond(row: Int) = micros.get(row) < 0 || micros.get(row) >= microsOfDay
    first(column, absent, row => isBeyond(row) && !column.isNull(row)).foreach { row =>
      throw new Misfit(row, s"is a time beyond a day, which ${promise.said} does not hold")
    }
    new TimeColumn(column, kind)
  }

  /** All rows are converted at once, so that the first that does not fit is named before any is used. */
  private def converted(column: Column, kind: DataType, absent: BitSet, convert: Any => Any): AnswerColumn = {
    val values = new Array[Any](column.rows)
    for (row <- values.indices if (absent == null || !absent.get(row)) && !column.isNull(row))
      values(row) = try convert(column.get(row)) catch {
        case why: Unfit => throw new Misfit(row, why.getMessage)
        case _: DateTimeException => throw new Misfit(row, "is a time beyond a day")
      }
    new ConvertedColumn(values, kind)
  }

  private def isNumber(kind: Kind): Boolean = kind == Kind.INT64 || kind == Kind.FLOAT64 || kind == Kind.DECIMAL

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

  /** Types of whole numbers, by their bits. */
  private object Whole {
    def unapply(kind: DataType): Option[Int] = kind match {
      case ByteType | ShortType | IntegerType | LongType => Some(kind.defaultSize * 8)
      case _ => None
    }
  }

  private final class Unfit(why: String) extends RuntimeException(why, null, false, false)

  private def number(value: Any, kind: DataType, said: String): Any = {
    val made = (value, kind) match {
      case (number: Double, DoubleType) => number
      case (number: Double, FloatType) =>
        if (number.toFloat.isInfinite && !number.isInfinite) throw new Unfit(s"is beyond the range of $said")
        number.toFloat
      case (number: Double, Whole(_)) =>
        if (number != number.toLong || math.abs(number) > mostExact) null else whole(BigInteger.valueOf(number.toLong), kind)
      case (number: Double, decimal: DecimalType) =>
        if (number.isNaN || number.isInfinite) null else fixed(new Digits(number.toString), decimal)
      case (number: Long, Whole(_)) => whole(BigInteger.valueOf(number), kind)
      case (number: Long, decimal: DecimalType) => fixed(Digits.valueOf(number), decimal)
      case (number: Long, _) => floating(Digits.valueOf(number), kind, exact = true)
      case (number: Digits, Whole(_)) =>
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
