package speed.spark

import java.util.{ArrayList, List => JavaList}
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.apache.spark.util.{AccumulatorV2, CollectionAccumulator}

/** What a task counts. `latency` counts calls by logarithmic step, as the Python path does. One thread uses it. */
final class Counts {
  var calls = 0L
  var rows = 0L
  var bytes = 0L
  var retries = 0L
  var failedRows = 0L
  var nanos = 0L
  private val latency = mutable.Map[Int, Long]().withDefaultValue(0)
  private val stepsPerDoubling = 8

  /** One batch that was answered. */
  def add(batchRows: Int, size: Long, batchNanos: Long): Unit = {
    rows += batchRows
    bytes += size
    nanos += batchNanos
    latency(math.ceil(math.log(math.max(batchNanos / 1e9, 1e-9)) / math.log(2) * stepsPerDoubling).toInt) += 1
  }

  /** Names and figures of what is not 0: what travels to the driver. */
  def text: String = {
    val figures = Seq("calls" -> calls, "rows" -> rows, "bytes" -> bytes, "retries" -> retries, "failed_rows" -> failedRows)
    (figures ++ latency.map { case (step, count) => s"$step" -> count }).map { case (name, count) => s"$name $count" }.mkString(",")
  }
}

/** The sum of what tasks counted. Tasks have a class of Spark's own in its place: the driver's classes may be unknown to
 *  the threads that read what came of a task. */
final class Totals extends AccumulatorV2[String, JavaList[String]] {
  private val sums = new ConcurrentHashMap[String, java.lang.Long]()
  def figures: java.util.Map[String, java.lang.Long] = new java.util.HashMap(sums)
  override def isZero: Boolean = sums.isEmpty
  override def reset(): Unit = sums.clear()
  override def copyAndReset(): AccumulatorV2[String, JavaList[String]] = new CollectionAccumulator[String]()
  override def copy(): AccumulatorV2[String, JavaList[String]] = {
    val copied = new Totals()
    copied.sums.putAll(sums)
    copied
  }
  override def add(text: String): Unit = text.split(",").map(_.split(" ")).foreach { figure =>
    sums.merge(figure(0), java.lang.Long.valueOf(figure(1)), (one, other) => one + other)
  }
  override def merge(other: AccumulatorV2[String, JavaList[String]]): Unit = other.value.forEach(add(_))
  override def value: JavaList[String] = new ArrayList[String]()
}

/** The sums of each use, on the driver. */
object Totals {
  private val known = new ConcurrentHashMap[(String, String), Totals]()

  def of(context: SparkContext, use: String): Totals =
    known.computeIfAbsent((context.applicationId, use), _ => {
      val made = new Totals()
      _root_.org.apache.spark.speed.Accumulators.register(context, made)
      made
    })
}
