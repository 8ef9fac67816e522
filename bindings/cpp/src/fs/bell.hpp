// The wake-up FIFO of a node: ringing never blocks and never kills the process (L-8, L-9).
// Threads: a Bell is drained by one thread and woken by any; a Ringer is guarded by its link's lock.
#pragma once

#include <string>
#include <vector>

#include "fs/files.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

// Who rang since the last drain.
struct Rings {
  std::vector<wire::NodeId> sources;  // each once
  bool everything = false;            // look at all lanes
};

// The receiver's end: holds its own FIFO open read-write, so that it never sees end-of-file.
class Bell {
 public:
  explicit Bell(const std::string& path);  // makes it if it is absent; RootError if something else is there

  Rings drain();
  void wake(const wire::NodeId& id) noexcept;  // a ring of one's own
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
  std::vector<wire::NodeId> buffer_;
};

enum class RingResult { rung, full, nobody };

// A sender's end of another node's bell; opened at the first ring, and again after its reader went.
class Ringer {
 public:
  explicit Ringer(std::string path) : path_(std::move(path)) {}

  RingResult ring(const wire::NodeId& source) noexcept;
  int fd() noexcept;  // for polling POLLERR (the reader died); -1 where nobody listens
  void close() noexcept { fd_.close(); }
  void shut() noexcept;  // for good: it is not opened again, and no ring is missed

 private:
  bool open() noexcept;

  std::string path_;
  Fd fd_;
  bool is_shut_ = false;
};

// Keeps all signals from the calling thread: a library's own threads take none, so SIGPIPE cannot reach them either.
void block_signals() noexcept;

}  // namespace speed::fs
