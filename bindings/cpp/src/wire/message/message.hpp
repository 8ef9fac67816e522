// The payload of MESSAGE and EVENT (registry_spec/messages.md). The few records of the head are read as views of the
// bytes; the payload is found, and neither copied nor read with them.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "wire/message/message_head.hpp"

namespace speed::wire {

// How a writer says that its payload is encrypted (M-20 to M-22); what is empty is not written.
struct EncryptionFields {
  struct Recipient {
    std::string key_id;
    Bytes encapsulated_key;
    Bytes wrapped_key;
  };

  std::string key_id;
  int type = 0;
  std::string_view algorithm;
  Bytes iv;
  Bytes aad;
  std::vector<Recipient> recipients;
};

// What a writer says of its payload's schema; what is empty is not written.
struct SchemaFields {
  std::string url;
  std::string version;
  std::string format;
  std::string hash;
  std::string name;
  std::string compatibility_mode;
  std::vector<std::string> deprecated_fields_used;
};

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
  std::optional<std::string> publisher_team;
  std::string signature_algorithm;  // the signature itself is put in afterwards; empty: none will be
  std::string signature_key_id;
  std::optional<EncryptionFields> encryption;
  bool contains_pii = false;
  std::string data_classification;  // empty: nothing is said
  int content_encoding = 0;
  std::int64_t uncompressed_bytes = 0;  // written with an encoding
  std::optional<std::string> traceparent;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> baggage;
  std::optional<SchemaFields> schema;
  std::map<std::string, Bytes> extensions;
};

// Appends one message; WireError BAD_MESSAGE names the field that breaks a rule.
void encode_message(const Value& payload, const MessageFields& fields, Buffer& out);

// The same for a payload that is bytes of this media type already.
void encode_message(std::string_view media_type, ByteView content, const MessageFields& fields, Buffer& out);

// Appends all of a message that stands before the bytes of a payload of this size, which come last.
void encode_front(std::uint64_t payload_bytes, const MessageFields& fields, Buffer& out);

// A UUIDv7 of a time in Unix ms and 10 random bytes (M-13).
std::string new_message_id(std::uint64_t unix_ms, const Block<10>& random);

// The UUIDv8 of message `number` of a work of these names, the same when it is done again (M-13). WireError: 2^48 or more.
std::string repeated_message_id(const std::vector<std::string>& names, std::uint64_t number);

// A received message: checked by all rules that need no decoded payload (M-4 to M-9).
class MessageView {
 public:
  explicit MessageView(KeptBytes data);  // WireError BAD_MESSAGE names the field
  explicit MessageView(Bytes data) : MessageView(kept(std::move(data))) {}
  MessageView(MessageView&&) noexcept = default;  // the views follow, since the bytes stay where they are
  MessageView(const MessageView&) = delete;
  MessageView& operator=(const MessageView&) = delete;

  std::string_view message_id() const { return head_.metadata.message_id; }
  std::string_view topic() const { return head_.metadata.topic; }
  std::string_view name_space() const { return head_.metadata.name_space; }
  std::int64_t published_at_ms() const { return head_.metadata.published_at_ms; }
  std::string content_type() const;
  std::string content_encoding() const;
  std::string_view type_url() const { return type_url_; }
  int priority() const;  // absent or zero reads as 5
  std::int64_t ttl_seconds() const { return head_.metadata.ttl_seconds; }
  bool is_expired(std::int64_t now_ms) const;  // M-7
  std::optional<std::string_view> correlation_id() const { return head_.correlation_id; }
  std::optional<std::string_view> causality_parent() const { return head_.causality_parent; }
  std::optional<std::string_view> publisher_id() const { return head_.security.publisher_id; }
  const Security& security() const { return head_.security; }
  const Schema& schema() const { return head_.schema; }
  bool is_encrypted() const { return head_.security.encryption.has_value(); }
  std::int64_t uncompressed_bytes() const { return head_.uncompressed_bytes; }
  std::optional<std::string> traceparent() const;  // null when absent or not valid (M-11)
  std::map<std::string, std::string> labels() const;
  std::map<std::string, std::string> baggage() const;
  std::map<std::string, Bytes> extensions() const;

  ByteView payload_bytes() const { return payload_; }  // as sent
  Value payload() const;  // decoded anew at each call; WireError when it is not what its type says
  Value decode(ByteView payload) const;  // likewise, a payload that lies elsewhere
  void check_plain() const;  // WireError if the payload travelled encoded or encrypted
  Value decode_plain(ByteView payload) const;  // one that was decrypted and decompressed
  ByteView bytes() const { return data_.bytes; }  // exactly what was received (M-12)

 private:
  void read_payload(ByteView any);

  KeptBytes data_;
  MessageHead head_;
  bool has_payload_ = false;
  ByteView payload_;
  std::string_view type_url_;
};

}  // namespace speed::wire
