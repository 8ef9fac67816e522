// Whether this process is a copy that `fork` made: asked at each call, so it must not cost a system call.
// Threads: all methods may be called from any thread.
#pragma once

#include <sys/types.h>

namespace speed::fs {

// A page that the kernel empties in every child, however it was forked; where it cannot, process ids are compared.
class ForkMark {
 public:
  ForkMark();
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;
  ~ForkMark();

  bool is_copied() const noexcept;

 private:
  pid_t pid_;
  volatile char* page_ = nullptr;
};

}  // namespace speed::fs
