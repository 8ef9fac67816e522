#include "engine/lane/departures.hpp"

#include <algorithm>
#include <utility>

namespace speed::engine {

namespace {

// First and longest pause between two looks at a process.
constexpr Duration first_look_pause = 1ms;
constexpr Duration longest_look_pause = 300ms;

}  // namespace

void Departures::add(const std::string& name, std::uint64_t entered) {
  const MutexLock guard(lock_);
  Gone& known = gone_[name];
  known = {std::max(known.entered, entered), false};
  any_gone_ = true;
}

std::vector<std::string> Departures::begin_scan() {
  std::vector<std::string> names;
  if (!any_gone_) return names;
  const MutexLock guard(lock_);
  for (auto& [name, gone] : gone_) {
    gone.scanned = true;
    names.push_back(name);
  }
  return names;
}

std::map<std::string, std::uint64_t> Departures::take() {
  std::map<std::string, std::uint64_t> taken;
  if (!any_gone_) return taken;
  const MutexLock guard(lock_);
  std::erase_if(gone_, [&](const auto& one) {
    if (one.second.scanned) taken.emplace(one.first, one.second.entered);
    return one.second.scanned;
  });
  any_gone_ = !gone_.empty();
  return taken;
}

void Departures::put_back(const std::string& name, std::uint64_t entered) {
  const MutexLock guard(lock_);
  Gone& known = gone_.try_emplace(name, Gone{entered, true}).first->second;
  known.entered = std::max(known.entered, entered);
  any_gone_ = true;
}

bool Departures::suspect(const std::string& name) {
  const MutexLock guard(lock_);
  if (!silent_.try_emplace(name, Look{{}, first_look_pause}).second) return false;
  next_look_ = TimePoint();
  return true;
}

std::vector<std::string> Departures::look(fs::Registry& registry, TimePoint now, const IsReplaced& is_replaced) {
  if (now < next_look_.load()) return {};
  std::vector<std::string> gone;
  for (const auto& [name, look] : take_due(now)) {
    const fs::EntryPtr entry = registry.surely_live(name);
    if (entry == nullptr || is_replaced(name, static_cast<std::uint32_t>(entry->generation))) {
      gone.push_back(name);
    } else if (look.pause <= longest_look_pause) {
      look_later(name, {now + look.pause, 2 * look.pause});
    }
  }
  return gone;
}

std::map<std::string, Departures::Look> Departures::take_due(TimePoint now) {
  const MutexLock guard(lock_);
  next_look_ = never;
  std::map<std::string, Look> due;
  for (auto at = silent_.begin(); at != silent_.end();) {
    if (at->second.at <= now) {
      due.insert(silent_.extract(at++));
    } else {
      next_look_ = std::min(next_look_.load(), at->second.at);
      ++at;
    }
  }
  return due;
}

void Departures::look_later(const std::string& name, const Look& next) {
  const MutexLock guard(lock_);
  if (silent_.try_emplace(name, next).second) next_look_ = std::min(next_look_.load(), next.at);
}

}  // namespace speed::engine
