#include "engine/serve/introspection.hpp"

#include <algorithm>

#include "fs/clock.hpp"
#include "fs/process.hpp"
#include "wire/limits.hpp"

namespace speed::engine {

std::optional<Map> Introspection::answer(const std::string& operation, const std::string& asker) const {
  if (operation == "INFO") return info(asker);
  if (operation == "STATS") return stats(asker);
  if (operation == "SERVICES") return Map{{"services", services(asker)}};
  if (operation == "DESCRIBE") {
    constexpr std::size_t room = 4096;  // for what stands around it
    return Map{{"services", services_.descriptions(asker, wire::limits::max_discovery_bytes - room)}};
  }
  return std::nullopt;
}

Array Introspection::services(const std::string& asker) const {
  Array names;
  for (std::string& name : services_.names(asker)) names.emplace_back(std::move(name));
  return names;
}

Map Introspection::info(const std::string& asker) const {
  const wire::Entry entry = context_.registration->entry();
  return {{"name", entry.name},
          {"nodeId", wire::to_hex(context_.id)},
          {"generation", entry.generation},
          {"language", entry.language},
          {"version", entry.version},
          {"pid", entry.pid},
          {"host", entry.host},
          {"fabrics", Array(entry.fabrics.begin(), entry.fabrics.end())},
          {"startupTimestamp", entry.startup_timestamp},
          {"services", services(asker)},
          {"features", Array(entry.features.begin(), entry.features.end())}};
}

Map Introspection::stats(const std::string& asker) const {
  const LaneFacts lanes = lanes_();
  std::map<std::string, std::uint64_t> counters = context_.stats.counters();
  for (const auto& [what, number] : lanes.counts) counters[what] += number;
  Map counts;
  for (const auto& [what, number] : counters) counts.set(what, number);
  const bool looks = context_.observers.include(asker, context_.policy);  // then it finds all
  const std::vector<std::string> visible = services_.names(asker);
  Map rows;
  for (const auto& [service, row] : context_.stats.services()) {
    if (looks || std::ranges::binary_search(visible, service)) rows.set(service, row.as_map());
  }
  const std::int64_t up_ms = fs::unix_ms() - context_.registration->entry().startup_timestamp;
  const auto [senders, by] = context_.stats.refusals();
  const core::Load load = workers_.scheduling([](core::Scheduler& scheduler) { return scheduler.load(); });
  Map answer{{"name", context_.name},
             {"uptimeSeconds", static_cast<double>(std::max<std::int64_t>(0, up_ms)) / 1000},
             {"pendingCalls", pending_()},
             {"lanes", lanes.lanes},
             {"queuedRequests", load.queued_requests},
             {"runningRequests", load.running_requests},
             {"queuedMessages", load.queued_messages},
             {"workers", workers_.size()},
             {"refusedSenders", senders},
             {"refusedBy", by},
             {"counters", counts},
             {"services", rows},
             {"handlers", context_.stats.handlers()},
             {"peers", context_.stats.peers()}};
  if (const std::optional<fs::OpenFiles> files = fs::open_files()) {
    answer.set("openFiles", files->now);
    if (files->most > 0) answer.set("maxOpenFiles", files->most);
  }
  return answer;
}

}  // namespace speed::engine
