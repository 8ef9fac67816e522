// What a handler or `receive` gets: one message with its metadata (registry_spec/messages.md).
// Threads: a Message belongs to one thread at a time; copies share one message.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "speed/conversion.hpp"
#include "speed/export.hpp"
#include "speed/segment.hpp"
#include "speed/value.hpp"

namespace speed {

namespace engine {
struct MessageAccess;
}

class SPEED_EXPORT Message {
 public:
  struct State;

  // The value the sender gave, decoded at each call; WireError when it is not what its type says, or is encoded.
  Value payload() const;
  // The values of a batch (Node::publish_batch), else the one payload; as of `payload`, and BatchError for a batch whose
  // number, lengths and end do not agree.
  std::vector<Value> payloads() const;
  ByteView payload_bytes() const;  // without a copy; decrypted and decompressed, or else as it travelled
  // The bytes of a payload that lies in the node's store, since it is above 16 MiB; null for all others. Readable until
  // the handler returned, or the next `receive`; then reading throws SegmentStoreError. The two above hold all of it.
  const segment::Source* large() const;
  const std::string& source() const;  // the authenticated sender
  // The fingerprint that the sender proved; empty where either node has no identity, and of what was a dead letter.
  const std::string& sender_identity() const;
  std::uint64_t sequence() const;
  std::int64_t timestamp_ms() const;  // Unix time of the sender
  ByteView bytes() const;  // the whole message exactly as received
  unsigned deliveries() const;  // how often it was begun, this time included
  bool redelivered() const;  // an earlier process of this name may already have handled it

  std::string message_id() const;
  std::string topic() const;
  std::string name_space() const;
  std::string content_type() const;
  std::string content_encoding() const;
  std::string type_url() const;  // of a protobuf payload
  int priority() const;  // 1 to 10; 5 when the sender said nothing
  std::int64_t ttl_seconds() const;  // 0: for ever
  std::int64_t published_at_ms() const;  // Unix time of the publisher
  std::optional<std::string> correlation_id() const;
  std::optional<std::string> causality_parent() const;
  std::optional<std::string> publisher_id() const;  // what the publisher says of itself
  std::string publisher_team() const;
  std::optional<std::string> signed_by() const;  // the trusted key whose signature holds
  std::optional<std::string> opened_by() const;  // the key that the payload was encrypted for
  std::string data_classification() const;  // empty means internal
  bool contains_pii() const;  // its publisher says so, or a schema of this node
  std::optional<std::string> traceparent() const;  // W3C; null when absent or not valid
  std::map<std::string, std::string> labels() const;
  std::map<std::string, std::string> baggage() const;
  std::map<std::string, Bytes> extensions() const;

  // Finishes it: it is never delivered again. Called by the next `receive`, or after the handler returned.
  void done();

 private:
  friend struct engine::MessageAccess;
  explicit Message(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace speed
