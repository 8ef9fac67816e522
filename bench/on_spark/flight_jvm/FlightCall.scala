package org.apache.spark.sql.flightbench

import java.nio.ByteOrder
import java.util.ArrayDeque

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.arrow.flight.{FlightClient, FlightDescriptor, Location}
import org.apache.arrow.memory.RootAllocator
import org.apache.arrow.vector.{Float8Vector, VectorSchemaRoot}
import org.apache.arrow.vector.types.FloatingPointPrecision
import org.apache.arrow.vector.types.pojo.{ArrowType, Field, FieldType, Schema}
import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{GenerateUnsafeRowJoiner, UnsafeRowWriter}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnVector, ColumnarBatch, ColumnarBatchRow}

/** What `SpeedCall` does, by the Java client of Arrow Flight, in the clear: one column out, no retries, no errors of rows.
 *  Doubles are written here, from rows and from columns; other types row by row, by Spark's own writer of Arrow. */
case class FlightCall(address: String, command: String, sent: Seq[Attribute], answer: Attribute, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output :+ answer
  override def producedAttributes: AttributeSet = AttributeSet(answer)
  override protected def withNewChildInternal(changed: LogicalPlan): LogicalPlan = copy(child = changed)
}

case class FlightCallExec(address: String, command: String, sent: Seq[Attribute], answer: Attribute, child: SparkPlan)
    extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output :+ answer
  /** Only the batches of a cache stay while the next ones are read. */
  override def supportsColumnar: Boolean = areDoubles && child.supportsColumnar && child.nodeName.contains("InMemory")
  private def areDoubles = (sent :+ answer).forall(_.dataType == DoubleType)
  override def producedAttributes: AttributeSet = AttributeSet(answer)
  private def ordinals: Array[Int] = sent.map(one => child.output.indexWhere(_.exprId == one.exprId)).toArray
  override protected def doExecute(): RDD[InternalRow] = {
    val (to, what, at, kept) = (address, command, ordinals, child.schema)
    val (types, given, doubles) = (StructType(at.map(kept(_))), answer.dataType, areDoubles)
    child.execute().mapPartitions { in =>
      if (in.isEmpty) in
      else if (doubles) new RowExchange(in, new Exchange(to, what, types.names), at, kept)
      else new AnyRowExchange(in, new AnyExchange(to, what, types), at, kept, given)
    }
  }
  override protected def doExecuteColumnar(): RDD[ColumnarBatch] = {
    val (to, what, at, names) = (address, command, ordinals, sent.map(_.name))
    child.executeColumnar().mapPartitions(in => if (in.isEmpty) in else new ColumnExchange(in, new Exchange(to, what, names), at))
  }
  override protected def withNewChildInternal(changed: SparkPlan): SparkPlan = copy(child = changed)
}

object FlightStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case FlightCall(address, command, sent, answer, child) => Seq(FlightCallExec(address, command, sent, answer, planLater(child)))
    case _ => Nil
  }
}

final class Enrich {
  /** With the answer as a column of a DDL. */
  def apply(frame: Dataset[Row], address: String, command: String, names: java.util.List[String], answer: String): Dataset[Row] = {
    val session = frame.sparkSession
    if (!session.experimental.extraStrategies.contains(FlightStrategy))
      session.experimental.extraStrategies = session.experimental.extraStrategies :+ FlightStrategy
    val field = StructType.fromDDL(answer).head
    val (made, plan) = (AttributeReference(field.name, field.dataType)(), frame.queryExecution.analyzed)
    val sent = names.asScala.toSeq.map(name => plan.output.find(_.name == name).get)
    Dataset.ofRows(session, FlightCall(address, command, sent, made, plan))
  }
}

object Exchange {
  val InFlight = 4
  val RowsOfBatch = 10000
  private[flightbench] val allocator = new RootAllocator()
}

/** One exchange of a task. */
final class Exchange(address: String, command: String, names: Seq[String]) {
  private val client = FlightClient.builder(Exchange.allocator, new Location(address)).build()
  private val call = client.doExchange(FlightDescriptor.command(command.getBytes))
  private val double = FieldType.nullable(new ArrowType.FloatingPoint(FloatingPointPrecision.DOUBLE))
  private val root = VectorSchemaRoot.create(new Schema(names.map(new Field(_, double, null)).asJava), Exchange.allocator)
  val sent: Array[Float8Vector] = names.indices.map(root.getVector(_).asInstanceOf[Float8Vector]).toArray
  call.getWriter.start(root)
  TaskContext.get().addTaskCompletionListener[Unit] { _ =>
    call.getWriter.completed()
    call.close()
    root.close()
    client.close()
  }

  def put(rows: Int): Unit = {
    root.setRowCount(rows)
    call.getWriter.putNext()
  }

  def take(): Float8Vector = {
    require(call.getReader.next(), "the service ended the exchange")
    call.getReader.getRoot.getVector(0).asInstanceOf[Float8Vector]
  }
}

final class ColumnExchange(in: Iterator[ColumnarBatch], exchange: Exchange, at: Array[Int]) extends Iterator[ColumnarBatch] {
  private val underWay = new ArrayDeque[ColumnarBatch]()

  override def hasNext: Boolean = {
    while (underWay.size < Exchange.InFlight && in.hasNext) send(in.next())
    !underWay.isEmpty
  }

  override def next(): ColumnarBatch = {
    if (!hasNext) throw new NoSuchElementException
    val batch = underWay.poll()
    val columns = Array.tabulate(batch.numCols)(batch.column) :+ (new ArrowColumnVector(exchange.take()): ColumnVector)
    new ColumnarBatch(columns, batch.numRows)
  }

  private def send(batch: ColumnarBatch): Unit = {
    at.indices.foreach(one => fill(exchange.sent(one), batch.column(at(one)), batch.numRows))
    exchange.put(batch.numRows)
    underWay.add(batch)
  }

  private def fill(to: Float8Vector, from: ColumnVector, rows: Int): Unit = {
    to.allocateNew(rows)
    to.getDataBuffer.nioBuffer(0, rows * 8).order(ByteOrder.LITTLE_ENDIAN).asDoubleBuffer.put(from.getDoubles(0, rows))
    if (!from.hasNull) to.getValidityBuffer.setOne(0, (rows + 7) / 8)
    else (0 until rows).foreach(row => if (from.isNullAt(row)) to.setNull(row) else to.setIndexDefined(row))
    to.setValueCount(rows)
  }
}

final class RowExchange(in: Iterator[InternalRow], exchange: Exchange, at: Array[Int], kept: StructType) extends Iterator[InternalRow] {
  private val underWay = new ArrayDeque[Array[UnsafeRow]]()
  private val whole = UnsafeProjection.create(kept)
  private val joiner = GenerateUnsafeRowJoiner.create(kept, StructType(Seq(StructField("answer", DoubleType))))
  private val writer = new UnsafeRowWriter(1)
  private var rows = Array.empty[UnsafeRow]
  private var answer: Float8Vector = _
  private var row = 0

  override def hasNext: Boolean = row < rows.length || advance()

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    writer.reset()
    writer.zeroOutNullBytes()
    if (answer.isNull(row)) writer.setNullAt(0) else writer.write(0, answer.get(row))
    row += 1
    joiner.join(rows(row - 1), writer.getRow)
  }

  private def advance(): Boolean = {
    while (underWay.size < Exchange.InFlight && in.hasNext) send()
    if (underWay.isEmpty) return false
    rows = underWay.poll()
    answer = exchange.take()
    row = 0
    true
  }

  private def send(): Unit = {
    val taken = new ArrayBuffer[UnsafeRow](Exchange.RowsOfBatch)
    exchange.sent.foreach(_.allocateNew(Exchange.RowsOfBatch))
    while (taken.size < Exchange.RowsOfBatch && in.hasNext) {
      val next = in.next() match { case unsafe: UnsafeRow => unsafe; case other => whole(other) }
      var one = 0
      while (one < at.length) {
        if (next.isNullAt(at(one))) exchange.sent(one).setNull(taken.size)
        else exchange.sent(one).set(taken.size, next.getDouble(at(one)))
        one += 1
      }
      taken += next.copy()
    }
    exchange.sent.foreach(_.setValueCount(taken.size))
    exchange.put(taken.size)
    underWay.add(taken.toArray)
  }
}

/** One exchange of a task, of columns of any types. */
final class AnyExchange(address: String, command: String, types: StructType) {
  private val client = FlightClient.builder(Exchange.allocator, new Location(address)).build()
  private val call = client.doExchange(FlightDescriptor.command(command.getBytes))
  val writer: ArrowWriter = ArrowWriter.create(types, "UTC", true, false)
  call.getWriter.start(writer.root)
  TaskContext.get().addTaskCompletionListener[Unit] { _ =>
    call.getWriter.completed()
    call.close()
    writer.root.close()
    client.close()
  }

  def put(): Unit = {
    writer.finish()
    call.getWriter.putNext()
    writer.reset()
  }

  def take(): ColumnVector = {
    require(call.getReader.next(), "the service ended the exchange")
    new ArrowColumnVector(call.getReader.getRoot.getVector(0))
  }
}

final class AnyRowExchange(in: Iterator[InternalRow], exchange: AnyExchange, at: Array[Int], kept: StructType, given: DataType)
    extends Iterator[InternalRow] {
  private val underWay = new ArrayDeque[Array[UnsafeRow]]()
  private val whole = UnsafeProjection.create(kept)
  private val sent = UnsafeProjection.create(at.map(one => BoundReference(one, kept(one).dataType, kept(one).nullable): Expression).toSeq)
  private val answers = StructType(Seq(StructField("answer", given)))
  private val answerOf = UnsafeProjection.create(answers)
  private val joiner = GenerateUnsafeRowJoiner.create(kept, answers)
  private var rows = Array.empty[UnsafeRow]
  private var answer: ColumnarBatchRow = _
  private var row = 0

  override def hasNext: Boolean = row < rows.length || advance()

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    answer.rowId = row
    row += 1
    joiner.join(rows(row - 1), answerOf(answer))
  }

  private def advance(): Boolean = {
    while (underWay.size < Exchange.InFlight && in.hasNext) send()
    if (underWay.isEmpty) return false
    rows = underWay.poll()
    answer = new ColumnarBatchRow(Array(exchange.take()))
    row = 0
    true
  }

  private def send(): Unit = {
    val taken = new ArrayBuffer[UnsafeRow](Exchange.RowsOfBatch)
    while (taken.size < Exchange.RowsOfBatch && in.hasNext) {
      val next = in.next() match { case unsafe: UnsafeRow => unsafe; case other => whole(other) }
      exchange.writer.write(sent(next))
      taken += next.copy()
    }
    exchange.put()
    underWay.add(taken.toArray)
  }
}
