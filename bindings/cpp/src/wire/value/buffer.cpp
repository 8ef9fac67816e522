#include "wire/value/buffer.hpp"

#include <sys/mman.h>

#include <iterator>
#include <new>

namespace speed::wire {

namespace {

constexpr std::size_t huge_page_bytes = 2 << 20;
constexpr std::size_t giant_bytes = 2 * huge_page_bytes;

// In huge pages where the system gives them: a fault for each small one costs more than all that is done to the bytes.
void* allocate_giant(std::size_t size) {
  void* const memory =
      std::aligned_alloc(huge_page_bytes, (size + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes);
  if (memory != nullptr) madvise(memory, size, MADV_HUGEPAGE);  // small ones serve as well
  return memory;
}

}  // namespace

Buffer::Memory Buffer::allocate(std::size_t size) {
  void* const memory = size < giant_bytes ? std::malloc(size) : allocate_giant(size);
  if (memory == nullptr) throw std::bad_alloc();
  return Memory(static_cast<std::byte*>(memory));
}

namespace {

constexpr std::size_t most_spare = 8;
constexpr std::size_t most_bytes = 64 << 20;  // of all that are spare

}  // namespace

Buffer Buffers::Shelf::take(std::size_t bytes) {
  const MutexLock guard(lock_);
  if (spare_.empty()) return {};
  auto best = bytes == 0 ? std::prev(spare_.end()) : spare_.end();
  for (auto one = spare_.begin(); bytes != 0 && one != spare_.end(); ++one) {
    const bool is_nearer = best == spare_.end() || one->buffer.capacity() < best->buffer.capacity();
    if (one->buffer.capacity() >= bytes && is_nearer) best = one;
  }
  if (best == spare_.end()) return {};
  Buffer taken = std::move(best->buffer);
  spare_.erase(best);
  bytes_ -= taken.capacity();
  return taken;
}

void Buffers::Shelf::give(Buffer buffer) {
  buffer.clear();
  if (buffer.capacity() == 0) return;
  const MutexLock guard(lock_);
  if (spare_.size() == most_spare || bytes_ + buffer.capacity() > most_bytes) return;
  bytes_ += buffer.capacity();
  spare_.push_back({std::move(buffer)});
}

void Buffers::Shelf::tidy() {
  const MutexLock guard(lock_);
  std::erase_if(spare_, [](const Spare& one) { return one.is_idle; });
  bytes_ = 0;
  for (Spare& one : spare_) {
    one.is_idle = true;
    bytes_ += one.buffer.capacity();
  }
}

std::shared_ptr<const void> Buffers::share(Buffer buffer) {
  struct Shared {
    Shared(std::shared_ptr<Shelf> of, Buffer held) : shelf(std::move(of)), buffer(std::move(held)) {}
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared() { shelf->give(std::move(buffer)); }
    std::shared_ptr<Shelf> shelf;
    Buffer buffer;
  };
  return std::make_shared<Shared>(shelf_, std::move(buffer));
}

}  // namespace speed::wire
