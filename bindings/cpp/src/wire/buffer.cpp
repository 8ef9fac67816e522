#include "wire/buffer.hpp"

#include <sys/mman.h>

#include <new>

namespace speed::wire {

namespace {

constexpr std::size_t huge_page_bytes = 2 << 20;
constexpr std::size_t giant_bytes = 2 * huge_page_bytes;

// In huge pages where the system gives them: a fault for each small one costs more than all that is done to the bytes.
void* allocate_giant(std::size_t size) {
  void* const memory = std::aligned_alloc(huge_page_bytes, (size + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes);
  if (memory != nullptr) madvise(memory, size, MADV_HUGEPAGE);  // small ones serve as well
  return memory;
}

}  // namespace

Buffer::Memory Buffer::allocate(std::size_t size) {
  void* const memory = size < giant_bytes ? std::malloc(size) : allocate_giant(size);
  if (memory == nullptr) throw std::bad_alloc();
  return Memory(static_cast<std::byte*>(memory));
}

}  // namespace speed::wire
