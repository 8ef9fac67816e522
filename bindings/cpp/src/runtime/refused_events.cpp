#include "runtime/refused_events.hpp"

namespace speed::runtime {

namespace {

constexpr double again_seconds = 1.0;  // for so long a publisher is told nothing more
constexpr std::size_t max_sources = 1024;

}  // namespace

std::optional<std::string> RefusedEvents::report(const std::string& source, const Node::Refusal& refusal, double now) {
  const auto found = told_.find(source);
  if (found != told_.end() && now < found->second.until) {
    ++found->second.left_out;
    return {};
  }
  const std::size_t left_out = found == told_.end() ? 0 : found->second.left_out;
  if (found == told_.end() && !has_room(now)) return {};
  told_[source] = {now + again_seconds, 0};
  if (left_out == 0) return refusal.why;
  return refusal.why + "; " + std::to_string(left_out) + " more of its events were refused since the last report";
}

// Forgets whom nothing was told lately, once there are many.
bool RefusedEvents::has_room(double now) {
  if (told_.size() < max_sources) return true;
  std::erase_if(told_, [now](const auto& one) { return now >= one.second.until; });
  return told_.size() < max_sources;
}

}  // namespace speed::runtime
