#include "engine/deliver/refused_events.hpp"

namespace speed::engine {

namespace {

constexpr Duration report_period = 1s;  // for so long a publisher is told nothing more
constexpr std::size_t max_sources = 1024;

}  // namespace

std::optional<std::string> RefusedEvents::report(const std::string& source, const Node::Refusal& refusal,
                                                 TimePoint now) {
  const auto found = last_reports_.find(source);
  if (found != last_reports_.end() && now < found->second.until) {
    ++found->second.left_out;
    return {};
  }
  const std::size_t left_out = found == last_reports_.end() ? 0 : found->second.left_out;
  if (found == last_reports_.end() && !has_room(now)) return {};
  last_reports_[source] = {now + report_period, 0};
  if (left_out == 0) return refusal.why;
  return refusal.why + "; " + std::to_string(left_out) + " more of its events were refused since the last report";
}

// Forgets whom nothing was told lately, once there are many.
bool RefusedEvents::has_room(TimePoint now) {
  if (last_reports_.size() < max_sources) return true;
  std::erase_if(last_reports_, [now](const auto& one) { return now >= one.second.until; });
  return last_reports_.size() < max_sources;
}

}  // namespace speed::engine
