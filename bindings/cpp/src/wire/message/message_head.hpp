// What the metadata of a message must look like: one check for writer and reader (M-5, M-6, M-8, M-9).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "wire/value/records.hpp"

namespace speed::wire {

struct Metadata {
  std::string_view message_id;
  std::string_view topic;
  std::string_view name_space;
  std::int64_t published_at_ms = 0;
  std::int64_t priority = 0;
  std::int64_t ttl_seconds = 0;
  int content_type = 0;
  std::string_view content_type_custom;
  int content_encoding = 0;
  std::string_view content_encoding_custom;
};

// WireError BAD_MESSAGE names the field.
void check_metadata(const Metadata& metadata);

// The head of a message: everything but the payload, as views of the bytes it was read from (M-4 to M-14).

// The data key for one reader.
struct Recipient {
  std::string_view key_id;
  ByteView encapsulated_key;
  ByteView wrapped_key;
};

// How the payload is encrypted.
struct Encryption {
  static constexpr std::size_t most_kept = 65;  // one more than a message may have, so that it shows

  std::string_view key_id;
  int type = 0;
  std::string_view algorithm;
  ByteView iv;
  ByteView aad;
  std::vector<Recipient> recipients;
};

// What a message says of its publisher, proves and hides.
struct Security {
  std::optional<std::string_view> publisher_id;
  std::string_view publisher_team;
  ByteView signature;
  std::size_t signatures = 0;  // records of it: one at most is good (M-16)
  std::string_view signature_algorithm;
  std::string_view signature_key_id;
  std::optional<Encryption> encryption;
  bool contains_pii = false;
  std::string_view data_classification;

  // Nothing but who published it, as most messages do; a token counts for nothing here, as only a gateway reads it.
  bool says_only_publisher() const {
    return publisher_team.empty() && signatures == 0 && signature_algorithm.empty() && signature_key_id.empty() &&
           !encryption && !contains_pii && data_classification.empty();
  }
};

// What a message says of its payload's schema.
struct Schema {
  std::string_view url;
  std::string_view version;
  std::string_view format;
  std::string_view hash;
  std::string_view name;
  std::string_view compatibility_mode;
};

struct MessageHead {
  using Pairs = std::vector<std::pair<std::string_view, ByteView>>;  // as read: of equal keys the last one counts

  bool has_metadata = false;
  Metadata metadata;
  std::optional<std::string_view> correlation_id;
  std::optional<std::string_view> causality_parent;
  std::int64_t uncompressed_bytes = 0;
  Security security;
  Schema schema;
  std::string_view trace_id;
  std::string_view span_id;
  std::int64_t trace_flags = 0;
  Pairs baggage;
  Pairs labels;
  Pairs extensions;

  // Takes in one top-level record. Repeated ones merge: what is read later counts. WireError BAD_MESSAGE.
  void read(const Record& record, ByteView data);
};

}  // namespace speed::wire
