// speed-vectors: makes the bytes of registry_spec/vectors from what they are made of, one JSON object a line,
// {"kind", "name", "hex"}, so that the others can read them. Authenticated kinds are made with the first accepted key.
// `speed-vectors protected`: instead, messages signed by, or encrypted for, each key of signatures.json and
// encryption.json that this build has.
// `speed-vectors segments`: instead of these, all segments of each cut of segments.json.
#include <iostream>

#include "message/guard.hpp"
#include "segments.hpp"
#include "wire/envelope/cursor.hpp"
#include "wire/envelope/entry.hpp"
#include "wire/envelope/seal.hpp"
#include "wire/message/message.hpp"
#include "wire/value/control.hpp"
#include "wire/value/spc.hpp"

namespace {

using namespace speed;
using test::Json;

void say(const std::string& kind, const Json& item, ByteView bytes) {
  std::cout << Json{{"kind", kind}, {"name", item["name"]}, {"hex", wire::to_hex(bytes)}}.dump() << "\n";
}

// The lane of the vectors.
struct Lane {
  wire::NodeId source = wire::node_id("analytics");
  wire::NodeId target = wire::node_id("billing");
  wire::Keyring keyring{test::keys_of(test::vectors("envelopes")["accepted_keys"])};

  wire::Key key() const { return keyring.lane_keys(source, target).front(); }
};

void envelopes(const Lane& lane) {
  for (const Json& item : test::cases("envelopes", "valid")) {
    const std::uint64_t sequence = test::number_of(item["sequence"]);
    const Bytes payload = test::bytes_of(item["payload"]);
    wire::Buffer out;
    wire::LinkSealer(lane.keyring, lane.source, lane.target, wire::generation_of(sequence))
        .seal(static_cast<wire::EnvelopeType>(item["type"].get<int>()), item["flags"].get<std::uint16_t>(),
              wire::counter_of(sequence), item["timestamp_ms"].get<std::uint64_t>(), payload,
              test::block_of<12>(item["nonce"]), out);
    say("envelope", item, out.view());
  }
}

wire::Entry entry_of(const Json& fields) {
  wire::Entry entry;
  fields["name"].get_to(entry.name);
  fields["generation"].get_to(entry.generation);
  fields["pid"].get_to(entry.pid);
  fields["pid_start"].get_to(entry.pid_start);
  fields["pid_namespace"].get_to(entry.pid_namespace);
  fields["host"].get_to(entry.host);
  fields["boot_id"].get_to(entry.boot_id);
  fields["startup_timestamp"].get_to(entry.startup_timestamp);
  fields["last_heartbeat"].get_to(entry.last_heartbeat);
  fields["heartbeat_monotonic_ms"].get_to(entry.heartbeat_monotonic_ms);
  fields["lease"].get_to(entry.lease);
  fields["heartbeat_interval"].get_to(entry.heartbeat_interval);
  fields["status"].get_to(entry.status);
  fields["fabrics"].get_to(entry.fabrics);
  fields["allow"].get_to(entry.allow);
  fields["deny"].get_to(entry.deny);
  fields["subscriptions"].get_to(entry.subscriptions);
  fields["language"].get_to(entry.language);
  fields["version"].get_to(entry.version);
  fields["features"].get_to(entry.features);
  fields["ephemeral"].get_to(entry.ephemeral);
  fields["shared"].get_to(entry.shared);
  entry.observers = fields.value("observers", std::vector<std::string>());
  entry.identity = fields.value("identity", std::string());
  entry.identities = fields.value("identities", std::vector<std::string>());
  return entry;
}

void entries(const Lane& lane) {
  for (const Json& item : test::cases("entries", "valid")) {
    say("entry", item, wire::view(wire::encode_entry(entry_of(item["entry"]), lane.keyring.registry_keys().front())));
  }
}

wire::Position position_of(const Json& fields, const char* generation) {
  return {fields[generation].get<std::uint32_t>(), fields["segment"].get<std::uint32_t>(),
          fields["offset"].get<std::uint64_t>()};
}

wire::Cursor cursor_of(const Json& fields) {
  wire::Cursor cursor;
  fields["receiver_generation"].get_to(cursor.receiver_generation);
  cursor.position = position_of(fields, "sender_generation");
  cursor.last_sequence = test::number_of(fields["last_sequence"]);
  for (const Json& one : fields["unfinished"]) {
    cursor.unfinished.push_back(
        {test::number_of(one["sequence"]), position_of(one, "generation"), one["begun"].get<bool>()});
  }
  fields["clean"].get_to(cursor.clean);
  fields["sealed"].get_to(cursor.sealed);
  return cursor;
}

void lane_files(const Lane& lane) {
  for (const Json& item : test::cases("cursors", "cursors_valid")) {
    say("cursor", item, wire::encode_cursor(cursor_of(item["cursor"]), lane.key()));
  }
  for (const Json& item : test::cases("cursors", "fences_valid")) {
    const Json& fields = item["fence"];
    const wire::Fence fence{fields["new_generation"].get<std::uint32_t>(),
                            {fields["old_generation"].get<std::uint32_t>(), fields["segment"].get<std::uint32_t>()},
                            fields["size"].get<std::uint64_t>()};
    say("fence", item, wire::encode_fence(fence, lane.key()));
  }
}

void values() {
  for (const Json& item : test::cases("values", "valid")) {
    say("value", item, wire::pack(test::value_of(item["value"])));
  }
}

template <class T>
T field(const Map& fields, std::string_view name) {
  const Value* const found = fields.find(name);
  return found == nullptr ? T() : found->as<T>();
}

void request(const Map& fields, wire::Buffer& out) {
  std::optional<std::string> trace;
  if (fields.find("traceparent") != nullptr) trace = field<std::string>(fields, "traceparent");
  wire::encode_request({.request_id = field<std::string>(fields, "requestId"),
                        .service = field<std::string>(fields, "service"),
                        .caller = field<std::string>(fields, "caller"),
                        .generation = static_cast<std::uint32_t>(field<std::int64_t>(fields, "generation")),
                        .deadline = {field<std::int64_t>(fields, "deadline"), field<std::string>(fields, "bootId"),
                                     field<std::int64_t>(fields, "bootDeadline")},
                        .traceparent = trace,
                        .repeated = field<bool>(fields, "repeated")},
                       field<Map>(fields, "arguments"), out);
}

void response(const Map& fields, wire::Buffer& out) {
  const auto id = field<std::string>(fields, "requestId");
  if (field<std::string>(fields, "status") == "SUCCESS") return wire::encode_success(id, *fields.find("result"), out);
  wire::encode_error(id, field<std::string>(fields, "errorCode"), field<std::string>(fields, "errorMessage"),
                     field<Map>(fields, "details"), out);
}

void payloads() {
  for (const Json& item : test::cases("payloads", "valid")) {
    const auto kind = item["kind"].get<std::string>();
    const Map fields = test::value_of(item["fields"]).as<Map>();
    wire::Buffer out;
    if (kind == "request") request(fields, out);
    if (kind == "response") response(fields, out);
    if (kind == "control") wire::pack(fields, out);
    say(kind, item, out.view());
  }
}

void messages() {
  for (const Json& item : test::cases("messages", "valid")) {
    if (item["name"] != "bytes") continue;
    const Json& fields = item["expected"];
    wire::MessageFields written;
    fields["message_id"].get_to(written.message_id);
    fields["topic"].get_to(written.topic);
    fields["namespace"].get_to(written.name_space);
    fields["published_at_ms"].get_to(written.published_at_ms);
    wire::Buffer out;
    wire::encode_message(test::bytes_of(fields["payload_hex"]), written, out);
    say("message", item, out.view());
  }
}

void segments() {
  for (const auto& [name, cut] : test::cuts()) {
    for (const Bytes& one : cut.segments) say("segment", Json{{"name", name}}, one);
  }
}

// One message under the settings, of the fields that all keys of the vectors allow.
void protect(const MessageSecurity& security, const std::string& name, const Protection& asked) {
  wire::MessageFields fields;
  fields.message_id = "018bcfe5-687b-7607-8809-0a0b0c0d0e0f";
  fields.topic = "orders.created";
  fields.published_at_ms = 1'700'000'000'123;
  fields.publisher_id = "billing";
  wire::Buffer out;
  message::Guard(security).write(Map{{"amount", 1000}}, fields, asked, out);
  say("protected", Json{{"name", name}}, out.view());
}

void protected_messages() {
  for (const Json& record : test::cases("encryption", "keys")) {
    try {
      const MessageKey key = MessageKey::parse(record.dump());
      MessageSecurity security;
      security.keys = std::make_shared<KeyStore>(std::vector{key});
      security.encrypt_to = {key.id()};
      for (const char* const compression : {"none", "gzip", "zstd", "lz4", "snappy"}) {
        security.compression = compression;
        protect(security, key.id(), {});
      }
    } catch (const NotAvailableError&) {
      continue;  // an algorithm of other builds
    }
  }
  MessageSecurity security;
  const MessageKey mac = MessageKey::parse(test::cases("signatures", "trusted")[1].dump());
  security.keys->put(mac.id(), {mac});
  security.sign_with = mac.id();
  protect(security, mac.id(), {});
}

}  // namespace

int main(int count, char** words) {
  if (count > 1) {
    if (std::string_view(words[1]) == "protected") {
      protected_messages();
    } else {
      segments();
    }
    return 0;
  }
  const Lane lane;
  envelopes(lane);
  entries(lane);
  lane_files(lane);
  values();
  payloads();
  messages();
  return 0;
}
