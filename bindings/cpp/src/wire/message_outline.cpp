#include "wire/message_outline.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "speed/error.hpp"
#include "wire/harmless.hpp"
#include "wire/limits.hpp"
#include "wire/records.hpp"

namespace speed::wire {

namespace {

struct OutlinePart {
  std::uint32_t field;
  const char* name;
  std::optional<std::size_t> bytes;
};

constexpr std::size_t most_records = 64;  // who writes more is not to be paid for with time

using OutlineParts = std::array<OutlinePart, 6>;

// What can be read of it, as a log may have it.
std::string message_id_of(ByteView metadata) {
  std::string_view found;
  try {
    std::size_t at = 0;
    for (std::size_t number = 0; at < metadata.size() && number < most_records; ++number) {
      const Record record = read_record(metadata, at);
      if (record.field == 1 && record.is_bytes()) found = text(metadata.subspan(record.value, record.end - record.value));
      at = record.end;
    }
  } catch (const WireError&) {  // as far as it could be read
  }
  return harmless(found.substr(0, limits::max_message_id_bytes));
}

std::string shown(const OutlineParts& parts) {
  std::string all;
  for (const OutlinePart& part : parts) {
    if (!all.empty()) all += ", ";
    all += part.bytes ? std::string(part.name) + " " + std::to_string(*part.bytes) : std::string("no ") + part.name;
  }
  return all;
}

}  // namespace

std::string outline(ByteView data) {
  OutlineParts parts{{{1, "metadata", {}}, {2, "security", {}}, {3, "observability", {}}, {4, "schema", {}},
                      {97, "extensions", {}}, {99, "payload", {}}}};
  std::size_t others = 0;
  std::size_t at = 0;
  std::string message_id;
  std::string more;
  try {
    for (std::size_t number = 0; at < data.size(); ++number) {
      if (number == most_records) {
        more = ", more from byte " + std::to_string(at);
        break;
      }
      const Record record = read_record(data, at);
      const auto part = std::ranges::find(parts, record.field, &OutlinePart::field);
      at = record.end;
      if (!record.is_bytes() || part == parts.end()) {
        ++others;
        continue;
      }
      part->bytes = part->bytes.value_or(0) + record.end - record.value;
      if (record.field != 1) continue;
      const std::string found = message_id_of(data.subspan(record.value, record.end - record.value));
      if (!found.empty()) message_id = found;
    }
  } catch (const WireError&) {
    more = ", nothing to be read from byte " + std::to_string(at);
  }
  if (others > 0) more = ", " + std::to_string(others) + " unknown" + more;
  return std::to_string(data.size()) + " bytes: " + shown(parts) + more +
         (message_id.empty() ? "; no message_id" : "; message_id '" + message_id + "'");
}

}  // namespace speed::wire
