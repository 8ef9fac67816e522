#include "fs/fork_mark.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace speed::fs {

namespace {

constexpr std::size_t page_bytes = 1;  // the kernel makes it a whole page

}  // namespace

ForkMark::ForkMark() : pid_(getpid()) {
  void* const page = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, page_bytes, MADV_WIPEONFORK) != 0) {
    munmap(page, page_bytes);
    return;
  }
  page_ = static_cast<volatile char*>(page);
  *page_ = 1;
}

ForkMark::~ForkMark() {
  if (page_ != nullptr) munmap(const_cast<char*>(page_), page_bytes);
}

bool ForkMark::is_copied() const noexcept { return page_ != nullptr ? *page_ == 0 : getpid() != pid_; }

}  // namespace speed::fs
