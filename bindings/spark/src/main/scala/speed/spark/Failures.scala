package speed.spark

import java.io.IOException
import java.math.{BigDecimal => Digits, MathContext}
import java.nio.file.{Files, Path}
import java.util.concurrent.{CompletionException, ExecutionException}

import org.apache.spark.{SparkEnv, SparkException}
import speed.errors._

object Failures {
  def cause(error: Throwable): Throwable = error match {
    case wrapped @ (_: ExecutionException | _: CompletionException) if wrapped.getCause != null => cause(wrapped.getCause)
    case other => other
  }

  /** Java's NodeLeftException is Python's NodeLeftError. */
  def name(error: Throwable): String = error.getClass.getSimpleName.stripSuffix("Exception") + "Error"

  /** What ends a task; the text begins as the error of the Python path does. It is an exception of Spark's own, without a
   *  cause: the driver drops what its own threads have no class for.
   */
  def ending(error: Throwable, where: String = "", added: String = ""): SparkException = {
    val made = new SparkException(s"${name(error)}: $where${error.getMessage}$added")
    made.setStackTrace(error.getStackTrace)
    made
  }

  def located(call: Call, error: Throwable, batch: Batch, added: String = ""): SparkException = {
    val where = badRow(error, batch).map(row => s"$batch, row ${batch.firstRow + row}").getOrElse(batch.toString)
    ending(error, s"${here(call)}$where: ", added)
  }

  /** Where it happened, if hosts differ in what they have. */
  def here(call: Call): String = if (call.own) thisExecutor else ""
  def thisExecutor: String = s"executor ${LiveNodes.executor} on $hostName: "

  /** Of the kernel; Java's own needs a name that resolves, which that of a container need not. */
  private def hostName: String =
    try Files.readString(Path.of("/proc/sys/kernel/hostname")).trim
    catch { case _: IOException => SparkEnv.get.blockManager.blockManagerId.host }

  /** The row of the batch that an error names (C-7). */
  def badRow(error: Throwable, batch: Batch): Option[Int] = error match {
    case call: CallException => call.details.get("row") match {
      case row: java.lang.Number if row.longValue >= 0 && row.longValue < batch.rows => Some(row.intValue)
      case _ => None
    }
    case _ => None
  }

  /** Errors that other rows might not meet; those alone become nulls. */
  def isOfTheRows(error: Throwable): Boolean = error match {
    case _: InvalidArgumentsException | _: ExecutionFailedException | _: CallTimeoutException | _: InternalException => true
    case _ => false
  }

  def maySucceedAgain(error: Throwable): Boolean =
    error.isInstanceOf[NodeLeftException] || error.isInstanceOf[CallTimeoutException]

  def tooSlow(batch: Batch, seconds: Double): String = {
    val rows = math.max(1, batch.rows)
    s"; $rows rows in ${number(seconds, 6)} s are ${number(seconds / rows, 2)} s a row: raise timeout_seconds, or send " +
      "fewer rows a batch (spark.sql.execution.arrow.maxRecordsPerBatch), or have the service take whole arrays (@by_array)"
  }

  def number(value: Double, digits: Int): String =
    if (value == 0) "0" else new Digits(value).round(new MathContext(digits)).stripTrailingZeros.toPlainString
}
