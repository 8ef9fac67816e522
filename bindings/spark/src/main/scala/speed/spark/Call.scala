package speed.spark

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** A column that a service is to answer with: `said` is what errors call the type. What lies in it is promised too. */
final case class Promise(name: String, said: String, nullable: Boolean, inner: Seq[Promise])

/** One use of a service, as the driver described it: settings alone, never a key. Without `root` it is what a node takes
 *  on the executor's host; `own` says that each host has a root and services of its own. */
final case class Call(
    root: Option[String],
    own: Boolean,
    key: Option[String],
    family: String,
    leaseSeconds: Double,
    node: String,
    fallback: Option[String],
    service: String,
    timeoutSeconds: Double,
    waitSeconds: Double,
    inFlight: Int,
    batchBytes: Long,
    idempotent: Boolean,
    retries: Int,
    nullsForErrors: Boolean,
    columns: Option[Seq[String]],
    promised: Seq[Promise],
    sameRows: Boolean,
    named: Boolean,
    use: String,
    traceparent: Option[String])

object Call {
  // What the Python function of a service carries, among the bytes that Spark keeps of it.
  private val begins = "speed-call:{".getBytes("US-ASCII")
  private val ends = "}:speed-call".getBytes("US-ASCII")
  private val json = new ObjectMapper()

  /** The use that a pickled function describes, if it does. */
  def in(command: Array[Byte]): Option[Call] = {
    val start = find(command, begins, 0)
    val end = if (start < 0) -1 else find(command, ends, start)
    if (end < 0) None else Some(read(json.readTree(new String(command, start + begins.length - 1,
      end + 2 - start - begins.length, "US-ASCII"))))
  }

  private def find(bytes: Array[Byte], wanted: Array[Byte], from: Int): Int = {
    var at = from
    while (at + wanted.length <= bytes.length) {
      if (bytes(at) == wanted(0) && java.util.Arrays.equals(bytes, at, at + wanted.length, wanted, 0, wanted.length)) return at
      at += 1
    }
    -1
  }

  private def promises(said: JsonNode): Seq[Promise] = said.asScala.toSeq.map(one =>
    Promise(one.get("name").asText, one.get("said").asText, one.get("nullable").asBoolean, promises(one.get("inner"))))

  private def read(said: JsonNode): Call = {
    def maybe(name: String): Option[JsonNode] = Option(said.get(name)).filterNot(_.isNull)
    Call(
      root = maybe("root").map(_.asText),
      own = said.get("own").asBoolean,
      key = maybe("key").map(_.asText),
      family = said.get("family").asText,
      leaseSeconds = said.get("lease_seconds").asDouble,
      node = said.get("node").asText,
      fallback = maybe("fallback").map(_.asText),
      service = said.get("service").asText,
      timeoutSeconds = said.get("timeout_seconds").asDouble,
      waitSeconds = said.get("wait_seconds").asDouble,
      inFlight = said.get("in_flight").asInt,
      batchBytes = said.get("batch_bytes").asLong,
      idempotent = said.get("idempotent").asBoolean,
      retries = said.get("retries").asInt,
      nullsForErrors = said.get("on_error").asText == "null",
      columns = maybe("columns").map(_.asScala.map(_.asText).toSeq),
      promised = promises(said.get("promised")),
      sameRows = said.get("same_rows").asBoolean,
      named = said.get("named").asBoolean,
      use = said.get("use").asText,
      traceparent = maybe("traceparent").map(_.asText))
  }
}
