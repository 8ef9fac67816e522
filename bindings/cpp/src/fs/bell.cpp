#include "fs/bell.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "speed/error.hpp"

namespace speed::fs {

namespace {

constexpr std::size_t drained_at_once = 4096;  // ids, at most: 64 KiB, what a pipe usually holds

// What the pipe holds, which may be less: a user's pipes are bounded together.
std::size_t ids_in(int pipe) {
  const int bytes = fcntl(pipe, F_GETPIPE_SZ);
  if (bytes <= 0) return drained_at_once;
  return std::clamp<std::size_t>(static_cast<std::size_t>(bytes) / sizeof(wire::NodeId), 1, drained_at_once);
}

thread_local bool signals_blocked = false;

// Writes to a FIFO whose reader may be gone: SIGPIPE must not reach the host program, whatever it does with signals.
ssize_t write_without_signal(int fd, const wire::NodeId& id) noexcept {
  if (signals_blocked) return ::write(fd, id.data(), id.size());
  sigset_t pipe_signal;
  sigset_t before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const ssize_t written = ::write(fd, id.data(), id.size());
  const int error = errno;
  if (written < 0 && error == EPIPE && sigismember(&before, SIGPIPE) == 0) {
    const timespec at_once{};
    sigtimedwait(&pipe_signal, nullptr, &at_once);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return written;
}

bool is_fifo(int fd, uid_t* owner) {
  struct stat status{};
  if (fstat(fd, &status) != 0) return false;
  if (owner != nullptr) *owner = status.st_uid;
  return S_ISFIFO(status.st_mode);
}

}  // namespace

void block_signals() noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  signals_blocked = true;
}

Bell::Bell(const std::string& path) {
  if (mkfifo(path.c_str(), private_file) != 0 && errno != EEXIST) {
    throw RootError("cannot make the bell " + path + ": " + std::generic_category().message(errno));
  }
  fd_ = Fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  uid_t owner = 0;
  const bool shared = is_groups(path.substr(0, path.rfind('/') + 1));
  if (!fd_ || !is_fifo(fd_.get(), &owner) || (owner != geteuid() && !shared)) {
    throw RootError(path + " is not a FIFO of this user; remove it");
  }
  if (shared) share(fd_.get(), shared_file);
  buffer_.resize(ids_in(fd_.get()));
}

Rings Bell::drain() {
  Rings rings;
  const std::size_t capacity = buffer_.size() * sizeof(wire::NodeId);
  const ssize_t size = ::read(fd_.get(), buffer_.data(), capacity);
  if (size <= 0) return rings;
  const auto bytes = static_cast<std::size_t>(size);
  rings.everything = bytes == capacity || bytes % sizeof(wire::NodeId) != 0;
  if (rings.everything) return rings;
  rings.sources.assign(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(bytes / sizeof(wire::NodeId)));
  std::ranges::sort(rings.sources);
  rings.sources.erase(std::unique(rings.sources.begin(), rings.sources.end()), rings.sources.end());
  return rings;
}

void Bell::wake(const wire::NodeId& id) noexcept {
  // A full bell wakes as well, and no reader is left only while the node ends.
  [[maybe_unused]] const ssize_t written = write_without_signal(fd_.get(), id);
}

RingResult Ringer::ring(const wire::NodeId& source) noexcept {
  if (is_shut_) return RingResult::rung;
  for (int tries = 0; tries < 2; ++tries) {
    if (!fd_ && !open()) return RingResult::nobody;
    if (write_without_signal(fd_.get(), source) >= 0) return RingResult::rung;
    if (errno == EAGAIN) return RingResult::full;
    fd_.close();  // its reader went; the owner may have come back
  }
  return RingResult::nobody;
}

bool Ringer::open() noexcept {
  if (is_shut_) return false;
  // ENXIO: nobody reads; ENOENT: never started; ELOOP: a link.
  Fd fd(::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  if (!fd || !is_fifo(fd.get(), nullptr)) return false;
  fd_ = std::move(fd);
  return true;
}

void Ringer::shut() noexcept {
  is_shut_ = true;
  close();
}

int Ringer::fd() noexcept { return fd_ || open() ? fd_.get() : -1; }

}  // namespace speed::fs
