// Answers to DISCOVERY questions: INFO, STATS, SERVICES, DESCRIBE (S-12, S-26). Only what the asker may call is listed.
// Threads: all methods may be called from any thread.
#pragma once

#include <functional>

#include "core/service_table.hpp"
#include "engine/context.hpp"
#include "engine/threads/workers.hpp"

namespace speed::engine {

class Introspection {
 public:
  // What the reading part tells: how many lanes are open, and what was dropped from them.
  struct LaneFacts {
    std::size_t lanes = 0;
    std::map<std::string, std::uint64_t> counts;
  };

  Introspection(Context& context, const core::ServiceTable& services, std::function<std::size_t()> pending,
                std::function<LaneFacts()> lanes, Workers& workers)
      : context_(context),
        services_(services),
        pending_(std::move(pending)),
        lanes_(std::move(lanes)),
        workers_(workers) {}

  std::optional<Map> answer(const std::string& operation, const std::string& asker) const;  // null: no such operation

 private:
  Map info(const std::string& asker) const;
  Map stats(const std::string& asker) const;
  Array services(const std::string& asker) const;

  Context& context_;
  const core::ServiceTable& services_;
  std::function<std::size_t()> pending_;
  std::function<LaneFacts()> lanes_;
  Workers& workers_;
};

}  // namespace speed::engine
