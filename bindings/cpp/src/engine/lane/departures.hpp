// Nodes that left, and nodes that may have died: who waits for them is told, once what they answered was read (S-7).
// Threads: all methods may be called from any thread; the registry is asked outside of the lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fs/registry/registry.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class Departures {
 public:
  // `name` is gone: its entry, its process or its leave notice says so. Of the calls to it, those are told that were
  // entered by then: who begins to wait later may wait for a successor, which can publish its entry at any time.
  void add(const std::string& name, std::uint64_t entered);

  // Nobody hears the bell of `name`: its process is to be looked at. False if it is already.
  bool suspect(const std::string& name);

  // Looks at the processes that are due. One that is alive may be about to end: it is looked at again for a while, with
  // growing pauses. Returns those that are gone, or were replaced.
  // `is_replaced(name, generation)`: calls are open to an earlier life of a node that is there.
  using IsReplaced = std::function<bool(const std::string& name, std::uint32_t generation)>;
  std::vector<std::string> look(fs::Registry& registry, TimePoint now, const IsReplaced& is_replaced);
  TimePoint next_look() const { return next_look_; }

  // A scan begins: returns those that are gone, whose lanes it is to read.
  std::vector<std::string> begin_scan();
  std::map<std::string, std::uint64_t> take();  // those that were scanned since, and which calls are told
  void put_back(const std::string& name, std::uint64_t entered);  // one that was taken: its lane is not read yet

 private:
  struct Look {
    TimePoint at = {};
    Duration pause = {};  // behind it
  };
  std::map<std::string, Look> take_due(TimePoint now) SPEED_EXCLUDES(lock_);
  void look_later(const std::string& name, const Look& next) SPEED_EXCLUDES(lock_);
  struct Gone {
    std::uint64_t entered = 0;
    bool scanned = false;
  };

  std::atomic<TimePoint> next_look_ = never;
  std::atomic<bool> any_gone_ = false;
  Mutex lock_;
  std::map<std::string, Gone> gone_ SPEED_GUARDED_BY(lock_);
  std::map<std::string, Look> silent_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::engine
