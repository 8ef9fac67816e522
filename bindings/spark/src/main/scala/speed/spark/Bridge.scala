package speed.spark

import org.apache.spark.SparkContext
import org.apache.spark.sql.classic.SparkSession

/** What the Python library asks of the driver's JVM. */
final class Bridge {
  /** Services are called from executors' JVMs in this session from now on, where a function describes its use of one. */
  def install(session: SparkSession): Unit = synchronized {
    val there = session.experimental.extraStrategies
    if (!there.contains(ServiceStrategy)) session.experimental.extraStrategies = there :+ ServiceStrategy
  }

  /** The Spark that this was built for, such as 4.3. */
  def sparkMinor: String = {
    val read = getClass.getResourceAsStream("/speed/spark/spark-minor")
    try new String(read.readAllBytes(), "US-ASCII").trim finally read.close()
  }

  /** Sums by name of what the tasks of a use counted; numbers as names are steps of latency. */
  def figures(context: SparkContext, use: String): java.util.Map[String, java.lang.Long] = Totals.of(context, use).figures
}
