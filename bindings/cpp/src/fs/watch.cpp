#include "fs/watch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cmath>

namespace speed::fs {

Watch::Watch(const std::string& directory) : directory_(directory), stop_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!stop_) throw_errno("eventfd");
}

void Watch::watch() noexcept {
  watching_ = true;
  Fd notify(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  const bool added = notify && inotify_add_watch(notify.get(), directory_.c_str(),
                                                 IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR) >= 0;
  if (added) notify_ = std::move(notify);  // else the directory is polled: inotify's limits are low
}

void Watch::wait(double seconds) {
  std::array<pollfd, 2> polled{{{stop_.get(), POLLIN, 0}, {notify_.get(), POLLIN, 0}}};
  poll(polled.data(), polled.size(), static_cast<int>(std::ceil(seconds * 1000)));
  std::array<char, 4096> events;  // hints only: a scan follows
  while (notify_ && read(notify_.get(), events.data(), events.size()) > 0) {
  }
}

void Watch::stop() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
}

}  // namespace speed::fs
