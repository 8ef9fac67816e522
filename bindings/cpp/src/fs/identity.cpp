#include "fs/identity.hpp"

#include <signal.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>

namespace speed::fs {

namespace {

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

// Field 22 of /proc/<pid>/stat, in ticks since boot; null if there is none, or only a zombie.
std::optional<std::int64_t> start_of(std::int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::stringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end + 1));
  std::string state;
  fields >> state;
  if (state.empty() || state == "Z" || state == "X") return std::nullopt;
  std::string field;
  for (int number = 4; number <= 22; ++number) fields >> field;
  return std::stoll(field);
}

// Whether `pid` exists although its /proc entry cannot be read (mount option hidepid, another user's).
bool is_hidden(std::int64_t pid) { return kill(static_cast<pid_t>(pid), 0) != 0 && errno == EPERM; }

}  // namespace

Identity own_identity() {
  utsname system{};
  uname(&system);
  return {getpid(), start_of(getpid()).value_or(0), link_target("/proc/self/ns/pid"), system.nodename,
          first_line("/proc/sys/kernel/random/boot_id")};
}

std::optional<bool> process_alive(const Identity& process, const Identity& observer) {
  const bool is_visible = !observer.boot_id.empty() && process.boot_id == observer.boot_id &&
                          process.pid_namespace == observer.pid_namespace && process.pid > 0 &&
                          process.pid <= INT32_MAX;
  if (!is_visible) return std::nullopt;
  const std::optional<std::int64_t> start = start_of(process.pid);
  if (!start && is_hidden(process.pid)) return std::nullopt;
  return start == process.pid_start;
}

}  // namespace speed::fs
