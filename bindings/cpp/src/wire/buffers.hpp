// Buffers that are kept from one payload to the next: fresh memory costs a page fault each 4 KiB.
// Threads: all methods may be called from any thread.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "wire/buffer.hpp"

namespace speed::wire {

// Copies are one and the same.
class Buffers {
 public:
  Buffers() : shelf_(std::make_shared<Shelf>()) {}

  // An empty one, which has room for so many bytes if any that was kept does; 0: the one that was given last.
  Buffer take(std::size_t bytes = 0) { return shelf_->take(bytes); }
  // What is not given back is freed: errors need no care.
  void give(Buffer buffer) { shelf_->give(std::move(buffer)); }
  // Keeps the bytes where they are; the buffer comes back once nobody holds them, also after the end of this object.
  std::shared_ptr<const void> share(Buffer buffer);
  // Frees what nobody took since the last time.
  void tidy() { shelf_->tidy(); }

 private:
  struct Spare {
    Buffer buffer;
    bool is_idle = false;
  };

  class Shelf {
   public:
    Buffer take(std::size_t bytes);
    void give(Buffer buffer);
    void tidy();

   private:
    std::mutex lock_;
    std::vector<Spare> spare_;
    std::size_t bytes_ = 0;  // of all that are spare
  };

  std::shared_ptr<Shelf> shelf_;
};

}  // namespace speed::wire
