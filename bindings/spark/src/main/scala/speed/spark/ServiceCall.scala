package speed.spark

import java.io.ObjectInputStream

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{ArrowEvalPython, LogicalPlan, MapInArrow, Project}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.util.AccumulatorV2
import speed.errors.SpeedException

/** Plans a Python function that describes a use of a service as calls from the executor's JVM. What it does not know it
 *  leaves to Spark's own planner, and thus to Python. */
object ServiceStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case Project(fields, eval: ArrowEvalPython) => asProjected(fields, eval).orElse(projected(fields, eval)).toSeq
    case eval: ArrowEvalPython => planned(eval, eval.child.output).toSeq
    case map: MapInArrow if !map.isBarrier && map.profile.isEmpty => mapped(map).toSeq
    case _ => Nil
  }

  private def projected(fields: Seq[NamedExpression], eval: ArrowEvalPython): Option[SparkPlan] = {
    val wanted = AttributeSet.fromAttributeSets(fields.map(_.references))
    planned(eval, eval.child.output.filter(wanted.contains)).map(ProjectExec(fields, _))
  }

  /** Columns of the child and then the answer, perhaps under another name: the rows need no projection. */
  private def asProjected(fields: Seq[NamedExpression], eval: ArrowEvalPython): Option[SparkPlan] = {
    val kept = fields.dropRight(1).collect { case one: Attribute if eval.child.outputSet.contains(one) => one }
    val isEach = kept.size == fields.size - 1 && kept.map(_.exprId).distinct.size == kept.size
    fields.lastOption.filter(_ => isEach).collect {
      case one @ Alias(answer: Attribute, _) if eval.resultAttrs.exists(_.exprId == answer.exprId) => one.toAttribute
    }.flatMap(answer => planned(eval, kept).map(_.copy(answer = Seq(answer))))
  }

  private def planned(eval: ArrowEvalPython, kept: Seq[Attribute]): Option[ServiceCallExec] = for {
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
    (arguments.map(_._2.dataType) ++ promised).forall(ColumnBodies.isKnown(_))

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

  /** Columns of Spark's own scans are taken as they are, and given on with those of the answer. */
  override def supportsColumnar: Boolean = arguments.forall(_._2.isInstanceOf[Attribute]) && Vectors.canTake(child) &&
    (Vectors.stay(child) || kept.forall(one => Vectors.isFlat(one.dataType)))

  override protected def doExecute(): RDD[InternalRow] = {
    val task = made
    child.execute().mapPartitions(rows => task.run(rows)(new ServiceRows(_, task, _, _)))
  }

  override protected def doExecuteColumnar(): RDD[ColumnarBatch] = {
    val (task, stay) = (made, Vectors.stay(child))
    child.executeColumnar().mapPartitions(batches => task.run(batches)(new ServiceBatches(_, task, stay, _, _)))
  }

  private def made: ServiceTask = new ServiceTask(call, arguments, types, kept, child.output, batchRows, keepsAll,
    Totals.of(sparkContext, call.use), metrics("numOutputRows"),
    Seq("calls", "retries", "failedRows", "bytes", "time").map(metrics))

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

/** What travels to the executors. */
final class ServiceTask(val call: Call, val arguments: Seq[(String, Expression)], val types: Seq[DataType],
    val kept: Seq[Attribute], val input: Seq[Attribute], val batchRows: Int, val keepsAll: Boolean,
    totals: AccumulatorV2[String, java.util.List[String]], val outputRows: SQLMetric, figures: Seq[SQLMetric])
    extends Serializable {
  /** Columns of the child that are kept, and arguments, by position; -1 for an argument that is to be computed. */
  def keptAt: Array[Int] = kept.map(position).toArray
  def argumentsAt: Array[Int] = arguments.map { case (_, one: Attribute) => position(one); case _ => -1 }.toArray
  private def position(one: Attribute) = input.indexWhere(_.exprId == one.exprId)

  /** The first task of an executor finds its node begun. */
  private def readObject(in: ObjectInputStream): Unit = {
    in.defaultReadObject()
    LiveNodes.begin(call)
  }

  def run[From, To](in: Iterator[From])(begin: (Iterator[From], Counts, TaskContext) => Iterator[To]): Iterator[To] =
    if (in.isEmpty) Iterator.empty else {
      val (counts, context) = (new Counts(), TaskContext.get())
      // First added, last run: behind the one that withdraws what is under way.
      context.addTaskCompletionListener[Unit](_ => report(counts))
      try begin(in, counts, context) catch { case error: SpeedException => throw Failures.ending(error, Failures.here(call)) }
    }

  private def report(counts: Counts): Unit = {
    totals.add(counts.text)
    figures.zip(Seq(counts.calls, counts.retries, counts.failedRows, counts.bytes, counts.nanos)).foreach {
      case (metric, figure) => metric += figure
    }
  }
}
