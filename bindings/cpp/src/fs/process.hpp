// Who a process is, for good: a pid alone is reused and means nothing in another namespace.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace speed::fs {

// One process on one boot of one host.
struct Identity {
  std::int64_t pid = 0;
  std::int64_t pid_start = 0;
  std::string pid_namespace;
  std::string host;
  std::string boot_id;

  friend bool operator==(const Identity&, const Identity&) = default;
};

void name_thread(const char* name) noexcept;  // of the present one, as tools show it; 15 characters at most

// Descriptors of this process, and how many it may have; 0: no limit.
struct OpenFiles {
  std::int64_t now = 0;
  std::int64_t most = 0;
};
std::optional<OpenFiles> open_files();  // none where the system does not tell

Identity own_identity();  // RegistrationError where the system does not let it see itself

// Whether that very process lives; null where it cannot be seen from here, or not now.
std::optional<bool> process_alive(const Identity& process, const Identity& observer);

// Whether this process is a copy that `fork` made: asked at each call, so it must not cost a system call.
// Threads: all methods may be called from any thread.

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
