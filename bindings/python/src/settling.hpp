// Futures whose calls ended, settled many at once: one taking of the interpreter lock for all answers of a turn.
//
// A worker settles them. But all workers may wait for futures, and what the program hung on one may wait for the next:
// where the oldest stays, a thread of its own goes on.
// Threads: all methods may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "gil.hpp"
#include "speed/embedding.hpp"

namespace speed::python {

class Settling : public std::enable_shared_from_this<Settling> {
 public:
  // `settle(future, result, error)` is Python's; it may run what waits for the future.
  explicit Settling(PyObject* settle) : settle_(settle) {}

  void begin(EmbeddedNode& node) { node_ = &node; }  // whose workers settle; it outlives what is added

  // `views`: bytes of the result become memoryviews.
  void add(const Kept& future, Answer answer, bool views);

  // If the oldest future is the one that was there the last time, its worker is held up: another thread begins.
  void look();

  // No worker comes any more: what they left is settled by a thread of its own, and what is added later as well.
  void end();

 private:
  struct Ended {
    Kept future;
    Answer answer;
    bool views;
  };
  std::optional<Ended> next();
  void help();
  void settle();
  void settle_one(Ended one);

  EmbeddedNode* node_ = nullptr;
  const Kept settle_;
  std::mutex lock_;  // guards what follows
  std::deque<Ended> ended_;
  bool is_queued_ = false;   // a worker is going to look
  bool is_over_ = false;
  std::uint64_t taken_ = 0;  // from `ended_`, so far
  std::uint64_t seen_ = 0;   // as many had been taken when somebody looked last
  std::atomic<int> helpers_ = 0;
};

}  // namespace speed::python
