// The payload of MESSAGE and EVENT (registry_spec/messages.md). protobuf reads the small head; the payload record is
// found by hand, so its bytes are never copied when the head is read.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "wire/buffer.hpp"

namespace speed::wire {

// What a writer says beside the payload; absent fields are not written (M-6).
struct MessageFields {
  std::string message_id;
  std::string topic = "message";
  std::string name_space = "default";
  std::int64_t published_at_ms = 0;
  std::optional<int> priority;
  std::optional<std::int64_t> ttl_seconds;
  std::optional<std::string> correlation_id;
  std::optional<std::string> causality_parent;
  std::optional<std::string> publisher_id;
  std::optional<std::string> traceparent;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> baggage;
  std::map<std::string, Bytes> extensions;
};

// Appends one message; WireError BAD_MESSAGE names the field that breaks a rule.
void encode_message(const Value& payload, const MessageFields& fields, Buffer& out);

// A UUIDv7 of a time in Unix ms and 10 random bytes (M-13).
std::string new_message_id(std::uint64_t unix_ms, const Block<10>& random);

// A received message: checked by all rules that need no decoded payload (M-4 to M-9).
class MessageView {
 public:
  explicit MessageView(Bytes data);  // WireError BAD_MESSAGE names the field
  MessageView(MessageView&&) noexcept;
  ~MessageView();

  std::string message_id() const;
  std::string topic() const;
  std::string name_space() const;
  std::int64_t published_at_ms() const;
  std::string content_type() const;
  std::string content_encoding() const;
  std::string type_url() const;
  int priority() const;  // absent or zero reads as 5
  std::int64_t ttl_seconds() const;
  bool is_expired(std::int64_t now_ms) const;  // M-7
  std::optional<std::string> correlation_id() const;
  std::optional<std::string> causality_parent() const;
  std::optional<std::string> publisher_id() const;
  std::optional<std::string> traceparent() const;  // null when absent or not valid (M-11)
  std::map<std::string, std::string> labels() const;
  std::map<std::string, std::string> baggage() const;
  std::map<std::string, Bytes> extensions() const;

  ByteView payload_bytes() const;  // as sent
  Value payload() const;           // decoded anew at each call; WireError when it is not what its type says
  const Bytes& bytes() const;      // exactly what was received (M-12)

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace speed::wire
