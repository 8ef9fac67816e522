// A process that may open no more files: EMFILE from the system itself.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace speed::test {

// For as long as it lives, this process opens at most so many files more.
class FewFiles {
 public:
  explicit FewFiles(std::size_t more = 0) {
    getrlimit(RLIMIT_NOFILE, &before_);
    few_ = before_;
    few_.rlim_cur = more == 0 ? 0 : behind(more);  // 0: also where another thread closes one of a low number
    if (setrlimit(RLIMIT_NOFILE, &few_) != 0) throw std::runtime_error("RLIMIT_NOFILE");
    present_ = this;
  }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;
  ~FewFiles() {
    present_ = nullptr;
    setrlimit(RLIMIT_NOFILE, &before_);
  }

  // Does something as if there were files enough.
  template <class Run>
  static auto spared(Run run) {
    const FewFiles* const present = present_;
    if (present != nullptr) setrlimit(RLIMIT_NOFILE, &present->before_);
    const auto result = run();
    if (present != nullptr) setrlimit(RLIMIT_NOFILE, &present->few_);
    return result;
  }

 private:
  // The number behind so many free ones.
  static rlim_t behind(std::size_t more) {
    std::vector<int> free;
    for (std::size_t at = 0; at <= more; ++at) free.push_back(open("/", O_PATH | O_CLOEXEC));
    for (const int fd : free) close(fd);
    if (free.back() < 0) throw std::runtime_error("no file can be opened");
    return static_cast<rlim_t>(free.back());
  }

  static inline std::atomic<const FewFiles*> present_ = nullptr;
  rlimit before_{};
  rlimit few_{};
};

}  // namespace speed::test
