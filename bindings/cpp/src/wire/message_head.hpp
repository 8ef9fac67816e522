// The head of a message: everything but the payload, as views of the bytes it was read from (M-4 to M-14).
#pragma once

#include <optional>
#include <vector>

#include "wire/message_rules.hpp"
#include "wire/records.hpp"

namespace speed::wire {

struct MessageHead {
  using Pairs = std::vector<std::pair<std::string_view, ByteView>>;  // as read: of equal keys the last one counts

  bool has_metadata = false;
  Metadata metadata;
  std::optional<std::string_view> correlation_id;
  std::optional<std::string_view> causality_parent;
  std::optional<std::string_view> publisher_id;
  bool is_encrypted = false;
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
