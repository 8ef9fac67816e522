// Futures whose calls ended, settled many at once: one taking of the interpreter lock for all answers of a turn.
// Threads: `add` may be called from any thread.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/pending_calls.hpp"
#include "gil.hpp"
#include "runtime/workers.hpp"

namespace speed::python {

class Settling : public std::enable_shared_from_this<Settling> {
 public:
  // `settle(future, result, error)` is Python's; it may run what waits for the future.
  Settling(runtime::Workers& workers, PyObject* settle) : workers_(workers), settle_(settle) {}

  void add(const Kept& future, core::Outcome outcome);

 private:
  struct Ended {
    Kept future;
    core::Outcome outcome;
  };
  void settle();

  runtime::Workers& workers_;
  const Kept settle_;
  std::mutex lock_;  // guards what follows
  std::vector<Ended> ended_;
};

}  // namespace speed::python
