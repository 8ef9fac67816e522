package speed.spark

import java.util.ArrayDeque

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.plans.logical.{ArrowEvalPython, LogicalPlan, MapInArrow, Project}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.util.AccumulatorV2
import speed.errors.SpeedException

/** Plans a Python function that describes a use of a service as calls from the executor's JVM. What it does not know it
 *  leaves to Spark's own planner, and thus to Python. */
object ServiceStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case Project(fields, eval: ArrowEvalPython) =>
      val wanted = AttributeSet.fromAttributeSets(fields.map(_.references))
      planned(eval, eval.child.output.filter(wanted.contains)).map(ProjectExec(fields, _)).toSeq
    case eval: ArrowEvalPython => planned(eval, eval.child.output).toSeq
    case map: MapInArrow if !map.isBarrier && map.profile.isEmpty => mapped(map).toSeq
    case _ => Nil
  }

  private def planned(eval: ArrowEvalPython, kept: Seq[Attribute]): Option[SparkPlan] = for {
    udf <- Option.when(eval.udfs.size == 1)(eval.udfs.head)
    call <- Call.in(udf.func.command.toArray)
    arguments <- named(call, udf.children)
    if !udf.children.exists(_.exists(_.isInstanceOf[PythonUDF]))
    if isKnown(arguments, promisedTypes(call, udf.dataType))
  } yield ServiceCallExec(call, arguments, promisedTypes(call, udf.dataType), Seq(eval.resultAttrs.head), kept, rows, planLater(eval.child))

  private def mapped(map: MapInArrow): Option[SparkPlan] = for {
    udf <- Option(map.functionExpr).collect { case udf: PythonUDF => udf }
    call <- Call.in(udf.func.command.toArray)
    arguments = map.child.output.map(one => one.name -> (one: Expression))
    if isKnown(arguments, map.output.map(_.dataType)) && arguments.forall(one => Names.isPlain(one._1))
  } yield ServiceCallExec(call, arguments, map.output.map(_.dataType), map.output, Nil, rows, planLater(map.child))

  private def rows: Int = SQLConf.get.arrowMaxRecordsPerBatch match {
    case most if most > 0 => most
    case _ => Int.MaxValue
  }

  /** One type for each promised column: several are one structure to Spark. */
  private def promisedTypes(call: Call, kind: DataType): Seq[DataType] = kind match {
    case several: StructType if call.promised.size > 1 => several.fields.toSeq.map(_.dataType)
    case one => Seq(one)
  }

  private def isKnown(arguments: Seq[(String, Expression)], promised: Seq[DataType]): Boolean =
    (arguments.map(_._2.dataType) ++ promised).forall(ColumnBodies.kindOf(_) != 0)

  /** Arguments by name: by position, or by the fields of one structure. None for what Python's own errors are better at. */
  private def named(call: Call, sent: Seq[Expression]): Option[Seq[(String, Expression)]] = (call.columns, sent) match {
    case (Some(names), _) if names.size == sent.size => Some(names.zip(sent))
    case (None, Seq(structure)) => structure.dataType match {
      case kind: StructType if kind.names.forall(Names.isPlain) && kind.names.distinct.length == kind.length =>
        Some(kind.names.toSeq.zipWithIndex.map { case (name, at) => name -> GetStructField(structure, at, Some(name)) })
      case _ => None
    }
    case _ => None
  }
}

object Names {
  def isPlain(name: String): Boolean = name.matches("[A-Za-z_][A-Za-z0-9_]*")
}

/** Calls a service on columns of its child, from the executor's JVM; `output` is what is kept of the child, and the answer. */
case class ServiceCallExec(call: Call, arguments: Seq[(String, Expression)], types: Seq[DataType], answer: Seq[Attribute],
    kept: Seq[Attribute], batchRows: Int, child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = kept ++ answer
  override def producedAttributes: AttributeSet = AttributeSet(answer)
  override def nodeName: String = "SpeedCall"
  override def simpleString(maxFields: Int): String = {
    val sent = arguments.map { case (name, value) => s"$name=${value.simpleString(maxFields)}" }.mkString(", ")
    s"SpeedCall ${call.node}.${call.service}($sent), ${output.mkString("[", ", ", "]")}"
  }
  override def verboseStringWithOperatorId(): String = s"$formattedNodeName\n${simpleString(conf.maxToStringFields)}\n"

  private def keepsAll = kept.map(_.exprId) == child.output.map(_.exprId)
  override def outputPartitioning: Partitioning =
    if (keepsAll) child.outputPartitioning else UnknownPartitioning(child.outputPartitioning.numPartitions)
  override def outputOrdering: Seq[SortOrder] = if (keepsAll) child.outputOrdering else Nil

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "calls" -> SQLMetrics.createMetric(sparkContext, "calls"),
    "retries" -> SQLMetrics.createMetric(sparkContext, "retries"),
    "failedRows" -> SQLMetrics.createMetric(sparkContext, "failed rows"),
    "bytes" -> SQLMetrics.createSizeMetric(sparkContext, "bytes sent"),
    "time" -> SQLMetrics.createNanoTimingMetric(sparkContext, "time of calls"))

  override protected def doExecute(): RDD[InternalRow] = {
    val totals = Totals.of(sparkContext, call.use)
    val task = new ServiceTask(call, arguments, types, kept, child.output, batchRows, keepsAll, totals,
      metrics("numOutputRows"), Seq("calls", "retries", "failedRows", "bytes", "time").map(metrics))
    child.execute().mapPartitions(rows => task.run(rows))
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

/** What travels to the executors. */
final class ServiceTask(val call: Call, val arguments: Seq[(String, Expression)], val types: Seq[DataType],
    val kept: Seq[Attribute], val input: Seq[Attribute], val batchRows: Int, val keepsAll: Boolean,
    totals: AccumulatorV2[String, java.util.List[String]], val outputRows: SQLMetric, figures: Seq[SQLMetric])
    extends Serializable {
  def run(rows: Iterator[InternalRow]): Iterator[InternalRow] = if (rows.isEmpty) Iterator.empty else {
    val (counts, context) = (new Counts(), TaskContext.get())
    // First added, last run: behind the one that withdraws what is under way.
    context.addTaskCompletionListener[Unit](_ => report(counts))
    try new ServiceRows(rows, this, counts, context) catch { case error: SpeedException => throw Failures.ending(error) }
  }

  private def report(counts: Counts): Unit = {
    totals.add(counts.text)
    figures.zip(Seq(counts.calls, counts.retries, counts.failedRows, counts.bytes, counts.nanos)).foreach {
      case (metric, figure) => metric += figure
    }
  }
}

/** The kept parts of the rows of one batch, as bytes. */
private final class KeptRows {
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

/** Rows in, several batches under way, rows with the answer out, in order. */
private final class ServiceRows(in: Iterator[InternalRow], task: ServiceTask, counts: Counts, context: TaskContext)
    extends Iterator[InternalRow] {
  private val call = task.call
  private val isStructure = call.sameRows && call.promised.size > 1
  private val calls = new Calls(call, task.arguments.map(_._1).toArray, new Answers(call, task.types), counts, context)
  private val builders = task.arguments.map(one => ColumnBuilder.of(one._2.dataType)).toArray
  private val ordinals = task.arguments.map(_._2).map {
    case one: Attribute => task.input.indexWhere(_.exprId == one.exprId)
    case _ => -1
  }.toArray
  private val plain = ordinals.forall(_ >= 0)
  private val argumentsOf = if (plain) null else UnsafeProjection.create(task.arguments.map(_._2), task.input)
  if (!plain) {
    argumentsOf.initialize(context.partitionId())
    ordinals.indices.foreach(at => ordinals(at) = at)
  }
  private val keeps = task.kept.nonEmpty
  private val keptOf =
    if (task.keepsAll) UnsafeProjection.create(task.input, task.input) else UnsafeProjection.create(task.kept, task.input)
  private val answerTypes = StructType(call.promised.zip(task.types).map { case (one, kind) => StructField(one.name, kind) })
  private val shown = if (isStructure) StructType(Seq(StructField("answer", answerTypes))) else answerTypes
  private val answerOf = UnsafeProjection.create(shown)
  private val joiner = if (!keeps) null else GenerateUnsafeRowJoiner.create(
    StructType(task.kept.map(one => StructField(one.name, one.dataType, one.nullable))), shown)

  private val keptRows = new ArrayDeque[KeptRows]()
  private val free = new ArrayDeque[KeptRows]()
  private val left = new UnsafeRow(task.kept.size)
  private var ahead: InternalRow = _ // read, and beyond the size of the batch before
  private var number, firstRow = 0L
  private var parts: Iterator[Batch] = Iterator.empty
  private var row, rowOfBatch, rows = 0
  private var answer: AnswerRow = _
  private var shownRow: InternalRow = _
  private var kept: KeptRows = _

  override def hasNext: Boolean = {
    try while (row >= rows && advance()) {} catch { case error: SpeedException => throw Failures.ending(error) }
    row < rows
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    answer.at = row
    val right = answerOf(shownRow)
    row += 1
    task.outputRows += 1
    if (!keeps) right else {
      kept.point(left, rowOfBatch)
      rowOfBatch += 1
      joiner.join(left, right)
    }
  }

  private def advance(): Boolean = {
    if (!parts.hasNext) {
      while (calls.hasRoom && hasInput) start()
      if (calls.isEmpty) return false
      if (kept != null) free.add(kept)
      parts = calls.next().iterator
      kept = keptRows.poll()
      rowOfBatch = 0
    }
    show(parts.next())
    true
  }

  private def show(part: Batch): Unit = {
    row = 0
    rows = if (!part.failed) part.answered else if (call.sameRows) part.rows else 0
    val columns = if (part.failed) Array.fill[AnswerColumn](call.promised.size)(Conversion.Nulls) else part.columns
    answer = new AnswerRow(columns)
    shownRow = if (!isStructure) answer else new org.apache.spark.sql.catalyst.expressions.GenericInternalRow(Array[Any](answer))
  }

  private def hasInput: Boolean = ahead != null || in.hasNext

  private def start(): Unit = {
    builders.foreach(_.reset())
    val taken = if (free.isEmpty) new KeptRows else free.poll()
    taken.reset()
    var (count, fits) = (0, true)
    while (fits && count < task.batchRows && hasInput) {
      val sent = if (ahead != null) ahead else in.next()
      val from = if (plain) sent else argumentsOf(sent)
      if (count > 0 && !hasRoomFor(from)) {
        ahead = sent
        fits = false
      } else {
        ahead = null
        var at = 0
        while (at < builders.length) { builders(at).add(from, ordinals(at)); at += 1 }
        if (keeps) taken.add(keptOf(sent))
        count += 1
      }
    }
    keptRows.add(taken)
    calls.start(new Batch(number, firstRow, count, builders.map(_.body()), builders.map(_.size).sum, call.service))
    number += 1
    firstRow += count
  }

  private def hasRoomFor(row: InternalRow): Boolean = {
    var (size, at) = (0L, 0)
    while (at < builders.length) { size += builders(at).size + builders(at).sizeOf(row, ordinals(at)); at += 1 }
    size <= call.batchBytes
  }
}
