package org.apache.spark.speed

import org.apache.spark.SparkContext
import org.apache.spark.util.AccumulatorV2

/** What only Spark's own packages may ask for: figures of tasks that failed count too. */
object Accumulators {
  def register(context: SparkContext, counted: AccumulatorV2[_, _]): Unit =
    counted.register(context, countFailedValues = true)
}
