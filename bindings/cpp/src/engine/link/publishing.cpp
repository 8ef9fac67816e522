#include "engine/link/publishing.hpp"

#include <algorithm>

#include "core/counters.hpp"
#include "engine/link/outgoing.hpp"
#include "engine/span.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "speed/interruption.hpp"

namespace speed::engine {

Published Publishing::publish() {
  const TimePoint deadline = fs::monotonic_now() + duration_of("timeout", options_.timeout);
  std::deque<std::string> full;
  const bool is_large = event_.size() > wire::limits::max_payload_bytes;
  for (const wire::Entry& entry : node_.context.registry->live_entries()) {
    if (!wants(entry)) continue;
    const bool grants = wire::grants(entry, node_.context.name);
    if (!grants && entry.status == "starting") continue;  // it has not said yet whom it allows
    if (!grants) {
      fail(entry.name, "ACCESS_DENIED", "it does not allow this node");
    } else if (is_large || !try_send(entry.name)) {
      full.push_back(entry.name);
    }
  }
  if (is_large) {
    for (const std::string& target : full) send_large(target);
  } else {
    wait_for_room(std::move(full), deadline);
  }
  return std::move(result_);
}

bool Publishing::wants(const wire::Entry& entry) const {
  const auto covers = [&](const std::string& pattern) { return wire::matches(pattern, topic_); };
  return entry.name != node_.context.name && entry.status != "leaving" &&
         std::ranges::any_of(entry.subscriptions, covers);
}

// False if there is no room now.
bool Publishing::try_send(const std::string& target) {
  try {
    node_.links.granted(target)->send({wire::EnvelopeType::event, 0, {&event_, 1}, {}, true, {}, options_.unordered});
    result_.delivered.push_back(target);
  } catch (const InboxFullError&) {
    return false;
  } catch (const Error& error) {
    fail(target, error.code(), error.what());
  }
  return true;
}

// One bound for all: whoever finds room gets it, however long another has none.
void Publishing::wait_for_room(std::deque<std::string> full, TimePoint deadline) {
  const Workers::PlaceRelease released;
  Duration pause = first_pause;
  const bool waits = options_.on_full == SendOptions::OnFull::wait;
  while (waits && !full.empty() && fs::monotonic_now() < deadline && !node_.context.life.wait_for_end(pause)) {
    look_for_interruption();
    std::erase_if(full, [&](const std::string& target) { return try_send(target); });
    pause = std::min(2 * pause, longest_pause);
  }
  for (const std::string& target : full) fail(target, "INBOX_FULL", "its inbox is full");
}

void Publishing::send_large(const std::string& target) {
  try {
    node_.large.send(target, wire::EnvelopeType::event, segment::MemorySource(event_),
                     duration_of("timeout", options_.timeout), {}, options_.unordered);
    result_.delivered.push_back(target);
  } catch (const Error& error) {
    fail(target, error.code(), error.what());
  }
}

void Publishing::fail(const std::string& target, std::string_view code, const std::string& text) {
  result_.failed.emplace(target, code);
  node_.context.stats.count(core::counters::events_undelivered);
  node_.context.log.limited(LogLevel::warning, "speed.messages", "events_undelivered",
                            "an event '" + topic_ + "' did not reach '" + target + "': " + text);
}

}  // namespace speed::engine
