#include "fs/registry/watch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cmath>

namespace speed::fs {

Watch::Watch(const std::string& directory) : directory_(directory), woken_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!woken_) throw_errno("eventfd");
}

void Watch::watch() noexcept {
  wanted_ = true;
  wake();
}

void Watch::begin() noexcept {
  watching_ = true;
  Fd notify(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  const bool added = notify && inotify_add_watch(notify.get(), directory_.c_str(),
                                                 IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR) >= 0;
  if (added) notify_ = std::move(notify);  // else the directory is polled: inotify's limits are low
}

void Watch::wait(Duration longest) {
  std::array<pollfd, 2> polled{{{woken_.get(), POLLIN, 0}, {notify_.get(), POLLIN, 0}}};
  poll(polled.data(), polled.size(), static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(longest).count()));
  if (wanted_ && !watching_) begin();
  std::uint64_t wakes = 0;
  [[maybe_unused]] const ssize_t drained = read(woken_.get(), &wakes, sizeof wakes);
  std::array<char, 4096> events;  // NOLINT(cppcoreguidelines-pro-type-member-init): hints only, a scan follows
  while (notify_ && read(notify_.get(), events.data(), events.size()) > 0) {
  }
}

void Watch::close() noexcept {
  const MutexLock guard(lock_);
  notify_.close();
  woken_.close();
}

void Watch::wake() noexcept {
  const MutexLock guard(lock_);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(woken_.get(), &one, sizeof one);
}

}  // namespace speed::fs
