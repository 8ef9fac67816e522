// Nodes that left, and nodes that may have died: who waits for them is told, once what they answered was read (S-7).
// Threads: all methods may be called from any thread; the registry is asked outside of the lock.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "fs/registry.hpp"

namespace speed::runtime {

class Departures {
 public:
  // `name` is gone: its entry, its process or its leave notice says so.
  void add(const std::string& name);

  // Nobody hears the bell of `name`: its process is to be looked at. False if it is already.
  bool suspect(const std::string& name);

  // Looks at the processes that are due. One that is alive may be about to end: it is looked at again for a while, with
  // growing pauses. True if one is gone.
  bool look(fs::Registry& registry, double now);
  double next_look() const { return next_look_; }  // monotonic seconds

  std::set<std::string> take();  // those that are gone

 private:
  struct Look {
    double at = 0;
    double pause = 0;  // behind it
  };
  std::map<std::string, Look> take_due(double now);
  void look_later(const std::string& name, const Look& next);

  std::atomic<double> next_look_ = never;
  std::atomic<bool> any_gone_ = false;
  std::mutex lock_;  // guards what follows
  std::set<std::string> gone_;
  std::map<std::string, Look> silent_;

  static constexpr double never = 1e300;
};

}  // namespace speed::runtime
