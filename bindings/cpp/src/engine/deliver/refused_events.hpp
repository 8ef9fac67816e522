// When the publishers of events that are not recorded are told so, though they asked for no answer (J-9).
// Threads: not locked; one batch at a time is handled.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "speed/node.hpp"
#include "wire/time.hpp"

namespace speed::engine {

// Whether an error says that an event was not recorded.
inline bool is_unrecorded(std::string_view code) { return code == "JOURNAL_FULL" || code == "JOURNAL_REFUSED"; }

class RefusedEvents {
 public:
  // What to tell `source` at `now` of an event that was refused; nothing if it was told just before.
  std::optional<std::string> report(const std::string& source, const Node::Refusal& refusal, TimePoint now);

 private:
  struct LastReport {
    TimePoint until = {};
    std::size_t left_out = 0;
  };

  bool has_room(TimePoint now);

  std::map<std::string, LastReport> last_reports_;
};

}  // namespace speed::engine
