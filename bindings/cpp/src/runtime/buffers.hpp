// Buffers that payloads are encoded into, kept from one to the next: fresh memory costs a page fault each 4 KiB.
// Threads: all methods may be called from any thread.
#pragma once

#include <mutex>
#include <vector>

#include "wire/buffer.hpp"

namespace speed::runtime {

class Buffers {
 public:
  wire::Buffer take() {
    const std::lock_guard guard(lock_);
    if (spare_.empty()) return {};
    wire::Buffer buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
  }

  // What is not given back is freed: errors need no care.
  void give(wire::Buffer buffer) {
    buffer.trim(kept_bytes);
    if (buffer.capacity() == 0) return;
    const std::lock_guard guard(lock_);
    if (spare_.size() < most) spare_.push_back(std::move(buffer));
  }

 private:
  static constexpr std::size_t kept_bytes = 4 << 20;
  static constexpr std::size_t most = 4;

  std::mutex lock_;
  std::vector<wire::Buffer> spare_;
};

}  // namespace speed::runtime
