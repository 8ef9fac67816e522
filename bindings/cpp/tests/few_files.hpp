// A process that may open no more files: EMFILE from the system itself.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <stdexcept>
#include <vector>

namespace speed::test {

// For as long as it lives, this process opens at most so many files more.
class FewFiles {
 public:
  explicit FewFiles(std::size_t more = 0) {
    std::vector<int> free;
    for (std::size_t at = 0; at <= more; ++at) free.push_back(open("/", O_PATH | O_CLOEXEC));
    for (const int fd : free) close(fd);
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(free.back());
    if (free.back() < 0 || setrlimit(RLIMIT_NOFILE, &few) != 0) throw std::runtime_error("RLIMIT_NOFILE");
  }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace speed::test
