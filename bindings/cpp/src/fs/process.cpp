#include "fs/process.hpp"

#include <pthread.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <sstream>

#include "fs/clock.hpp"
#include "fs/files.hpp"
#include "speed/error.hpp"

namespace speed::fs {

namespace {

constexpr std::int64_t listing_descriptors = 2;  // that listing a directory takes itself

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string link_target(const char* path) {
  std::array<char, 256> target{};
  const ssize_t size = readlink(path, target.data(), target.size());
  return size > 0 ? std::string(target.data(), static_cast<std::size_t>(size)) : std::string();
}

constexpr std::size_t most_stat_bytes = 4096;

// The kernel counts the starts that it shows from the boot of the reader's time namespace.
std::int64_t tick_ns() { return 1'000'000'000 / sysconf(_SC_CLK_TCK); }

// Rounded down, as the kernel does.
std::int64_t ticks_ahead() {
  const std::int64_t ahead = clock_offsets().boottime_ns;
  return ahead / tick_ns() - (ahead % tick_ns() < 0 ? 1 : 0);
}

// What /proc tells of a process.
struct Seen {
  bool lives = false;
  std::int64_t start = 0;  // ticks since boot
};

Seen parse(const std::string& stat) {
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));  // the name may hold anything, spaces too
  std::string state;
  std::string field;
  fields >> state;
  for (int number = 4; number < 20; ++number) fields >> field;
  std::int64_t threads = 0;  // field 20
  std::int64_t start = 0;    // field 22
  if (!(fields >> threads >> field >> start)) throw std::system_error(EIO, std::generic_category(), "/proc");
  // A main thread that ended is a zombie while others run, or close their files.
  return {(state != "Z" && state != "X") || threads > 1, start - ticks_ahead()};
}

// Null if there is no such process to be seen; std::system_error where the look failed, which tells nothing.
std::optional<Seen> seen_process(std::int64_t pid) {
  try {
    const std::string path = "/proc/" + std::to_string(pid) + "/stat";
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) throw_errno(path);
    std::string stat(most_stat_bytes, '\0');
    stat.resize(read_at(fd.get(), std::as_writable_bytes(std::span(stat)), 0));
    return parse(stat);
  } catch (const std::system_error& error) {
    if (error.code().value() == ENOENT || error.code().value() == ESRCH) return std::nullopt;
    throw;
  }
}

// Whether there is such a process although /proc does not show it (mount option hidepid, another user's).
bool is_hidden(std::int64_t pid) { return kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM; }

std::int64_t own_start() {
  try {
    return seen_process(getpid()).value_or(Seen{}).start;
  } catch (const std::system_error& error) {
    throw RegistrationError("cannot see this process in /proc: " + error.code().message());
  }
}

}  // namespace

void name_thread(const char* name) noexcept {
#ifdef __linux__
  pthread_setname_np(pthread_self(), name);
#else
  pthread_setname_np(name);
#endif
}

std::optional<OpenFiles> open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  OpenFiles files;
  if (limit.rlim_cur != RLIM_INFINITY) files.most = static_cast<std::int64_t>(limit.rlim_cur);
  try {
    const Fd listing = open_directory("/proc/self/fd");
    for_each_name(listing.get(), [&](const char*) { ++files.now; });
    files.now -= listing_descriptors;
  } catch (const std::system_error&) {
    return std::nullopt;
  }
  return files;
}

Identity own_identity() {
  utsname system{};
  uname(&system);
  std::string space = link_target("/proc/self/ns/pid");
  std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  // Starts that are not known to the tick cannot be compared with those that others see, nor clocks of unknown offset.
  if (clock_offsets().boottime_ns % tick_ns() != 0) space += " " + link_target("/proc/self/ns/time");
  if (!clock_offsets().space.empty()) boot += " " + clock_offsets().space;
  return {getpid(), own_start(), space, system.nodename, boot};
}

std::optional<bool> process_alive(const Identity& process, const Identity& observer) {
  const bool is_visible = !observer.boot_id.empty() && process.boot_id == observer.boot_id &&
                          process.pid_namespace == observer.pid_namespace && process.pid > 0 &&
                          process.pid <= INT32_MAX;
  if (!is_visible) return std::nullopt;
  try {
    const std::optional<Seen> seen = seen_process(process.pid);
    if (!seen) return is_hidden(process.pid) ? std::nullopt : std::optional(false);
    return seen->lives && seen->start == process.pid_start;
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

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
