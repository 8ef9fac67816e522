#include "engine/link/publishing.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/counters.hpp"
#include "engine/link/outgoing.hpp"
#include "engine/span.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "speed/interruption.hpp"

namespace speed::engine {

Published Publishing::publish() {
  const TimePoint deadline = fs::monotonic_now() + duration_of("timeout", options_.timeout);
  Recipients waiting = unsettled(recipients());
  if (!waiting.empty()) wait_for_room(std::move(waiting), deadline);
  return std::move(result_);
}

// Those who want it and allow this node; of the others it says so.
Publishing::Recipients Publishing::recipients() {
  Recipients found;
  std::map<std::string, std::vector<std::string>> families;
  std::map<std::string, std::string> denied;
  for (const wire::Entry& entry : node_.context.registry->live_entries()) {
    const Wanted wanted = wants(entry);
    if (wanted == Wanted::no) continue;
    const std::string family = wanted == Wanted::shared ? wire::family_of(entry.name) : std::string();
    if (!node_.context.is_granted_by(entry)) {
      if (entry.status != "starting") denied.emplace(entry.name, family);  // that one has not said yet whom it allows
    } else if (wanted == Wanted::each) {
      found.push_back({"", {entry.name}});
    } else {
      families[family].push_back(entry.name);
    }
  }
  for (const auto& [name, family] : denied) {
    if (!families.contains(family)) fail(name, "ACCESS_DENIED", "it does not allow this node");
  }
  for (auto& [family, able] : families) {
    std::ranges::sort(able);
    node_.turns.order(family, able);
    found.push_back({family, std::move(able)});
  }
  return found;
}

Publishing::Wanted Publishing::wants(const wire::Entry& entry) const {
  if (entry.name == node_.context.name || entry.status == "leaving") return Wanted::no;
  Wanted wanted = Wanted::no;
  for (const std::string& pattern : entry.subscriptions) {
    if (!wire::matches(pattern, topic_)) continue;
    if (std::ranges::find(entry.shared, pattern) == entry.shared.end()) return Wanted::each;
    wanted = Wanted::shared;
  }
  return wanted;
}

// Tries each; those that have no room are left.
Publishing::Recipients Publishing::unsettled(Recipients recipients) {
  Recipients left;
  for (Recipient& one : recipients) {
    if (!is_settled(one)) left.push_back(std::move(one));
  }
  return left;
}

bool Publishing::is_settled(Recipient& one) {
  std::vector<std::pair<std::string, Error>> errors;
  for (auto name = one.able.begin(); name != one.able.end();) {
    try {
      send(*name);
      result_.delivered.push_back(*name);
      if (!one.family.empty()) node_.turns.took(one.family, *name);
      return true;
    } catch (const InboxFullError&) {
      ++name;
    } catch (const Error& error) {
      errors.emplace_back(*name, error);
      name = one.able.erase(name);
    }
  }
  if (!one.able.empty()) return false;
  for (const auto& [name, error] : errors) fail(name, error.code(), error.what());
  return true;
}

void Publishing::send(const std::string& target) {
  if (event_.size() > wire::limits::max_payload_bytes) {
    node_.large.send(target, wire::EnvelopeType::event, segment::MemorySource(event_),
                     duration_of("timeout", options_.timeout), {}, options_.unordered);
  } else {
    node_.links.granted(target)->send({wire::EnvelopeType::event, 0, {&event_, 1}, {}, true, {}, options_.unordered});
  }
}

// One bound for all: whoever finds room gets it, however long another has none.
void Publishing::wait_for_room(Recipients full, TimePoint deadline) {
  const Workers::PlaceRelease released;
  Duration pause = first_pause;
  const bool waits = options_.on_full == SendOptions::OnFull::wait;
  while (waits && !full.empty() && fs::monotonic_now() < deadline && !node_.context.life.wait_for_end(pause)) {
    look_for_interruption();
    full = unsettled(std::move(full));
    pause = std::min(2 * pause, longest_pause);
  }
  for (const Recipient& one : full) {
    for (const std::string& target : one.able) fail(target, "INBOX_FULL", "its inbox is full");
  }
}

void Publishing::fail(const std::string& target, std::string_view code, const std::string& text) {
  result_.failed.emplace(target, code);
  node_.context.stats.count(core::counters::events_undelivered);
  node_.context.log.limited(LogLevel::warning, "speed.messages", "events_undelivered",
                            "an event '" + topic_ + "' did not reach '" + target + "': " + text);
}

}  // namespace speed::engine
