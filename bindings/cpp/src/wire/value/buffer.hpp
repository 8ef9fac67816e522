// Growing memory that is not zeroed first; kept and used again, since fresh pages cost a fault each.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "wire/mutex.hpp"
#include "wire/value/bytes.hpp"

namespace speed::wire {

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : data_(std::move(other.data_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  // `size` more bytes at the end, uninitialised; views of earlier bytes are invalid unless they were reserved.
  std::span<std::byte> extend(std::size_t size) {
    reserve(size_ + size);
    size_ += size;
    return {data_.get() + size_ - size, size};
  }

  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    capacity = std::max({capacity, capacity_ * 2, smallest});
    Memory grown = allocate(capacity);
    copy_to(grown.get(), view());
    data_ = std::move(grown);
    capacity_ = capacity;
  }

  void append(ByteView more) { copy_to(extend(more.size()).data(), more); }
  void clear() { size_ = 0; }
  void shrink(std::size_t size) { size_ = std::min(size_, size); }

  // Forgets the content, and gives the memory of a rare giant back.
  void trim(std::size_t kept) {
    size_ = 0;
    if (capacity_ <= kept) return;
    data_.reset();
    capacity_ = 0;
  }

  std::byte* data() { return data_.get(); }
  ByteView view() const { return {data_.get(), size_}; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }

 private:
  static constexpr std::size_t smallest = 512;  // bytes; less would grow in small steps

  struct Free {
    // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): of `allocate`
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte[], Free>;
  static Memory allocate(std::size_t size);

  Memory data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

// Buffers that are kept from one payload to the next: fresh memory costs a page fault each 4 KiB.
// Threads: all methods may be called from any thread.

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
    Mutex lock_;
    std::vector<Spare> spare_ SPEED_GUARDED_BY(lock_);
    std::size_t bytes_ SPEED_GUARDED_BY(lock_) = 0;  // of all that are spare
  };

  std::shared_ptr<Shelf> shelf_;
};

}  // namespace speed::wire
