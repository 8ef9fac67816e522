package speed.spark

import java.util.{Map => JavaMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.types._
import speed.columns.Column
import speed.errors.ExecutionFailedException

/** A value of the answer that is not as it was promised; `path` leads to it from the value that it lies in. */
final class Misfit(val row: Int, val why: String, val path: String = "") extends RuntimeException(why, null, false, false) {
  /** The same seen from what holds it. */
  def inside(name: String, row: Int = row): Misfit =
    new Misfit(row, why, if (path.isEmpty || path.startsWith("[")) name + path else s"$name.$path")
}

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
    val made = try column.map(Conversion.to(_, kind, field)).getOrElse(new NullColumn(kind, rows)) catch {
      case misfit: Misfit => throw new Misfit(misfit.row, s"the answer for '${misfit.inside(field.name).path}' ${misfit.why}")
    }
    if (!field.nullable && made.hasNull) (0 until rows).find(made.isNullAt).foreach { row =>
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
