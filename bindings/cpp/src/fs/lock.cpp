#include "fs/lock.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <thread>

#include "fs/clock.hpp"
#include "speed/interruption.hpp"

namespace speed::fs {

namespace {

constexpr std::chrono::milliseconds pause{5};  // nothing tells when a lock is let go of

}  // namespace

std::optional<Lock> Lock::take(const std::string& path, double seconds) {
  const double until = monotonic_seconds() + seconds;
  while (true) {
    if (std::optional<Lock> lock = try_once(path)) return lock;
    if (monotonic_seconds() >= until) return std::nullopt;
    std::this_thread::sleep_for(pause);
    look_for_interruption();
  }
}

std::optional<Lock> Lock::try_once(const std::string& path) {
  Fd fd = open_or_make(AT_FDCWD, path, O_RDWR | O_NONBLOCK);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return std::nullopt;
    throw_errno(path);
  }
  if (status_of(fd.get()).st_nlink == 0) return std::nullopt;  // somebody removed it: the lock of a file that nobody finds
  return Lock(std::move(fd));
}

Lock::~Lock() {
  if (fd_) flock(fd_.get(), LOCK_UN);
}

}  // namespace speed::fs
