#include "fs/clock.hpp"

#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>

namespace speed::fs {

namespace {

constexpr const char* initial_space = "time:[4026531834]";

std::string link_target(const char* path) {
  std::array<char, 64> target{};
  const ssize_t size = readlink(path, target.data(), target.size());
  return size > 0 ? std::string(target.data(), static_cast<std::size_t>(size)) : std::string();
}

ClockOffsets own_clock_offsets() {
  const std::string own = link_target("/proc/self/ns/time");
  if (own.empty() || own == initial_space) return {};
  if (own != link_target("/proc/self/ns/time_for_children"))
    return {0, 0, own};  // the file is about those of the children
  std::ifstream file("/proc/self/timens_offsets");
  std::ostringstream text;
  text << file.rdbuf();
  return parse_clock_offsets(text.str());
}

}  // namespace

ClockOffsets parse_clock_offsets(const std::string& text) {
  ClockOffsets offsets;
  std::istringstream lines(text);
  std::string clock;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  while (lines >> clock >> seconds >> nanoseconds) {
    if (clock == "monotonic") offsets.monotonic_ns = seconds * 1'000'000'000 + nanoseconds;
    if (clock == "boottime") offsets.boottime_ns = seconds * 1'000'000'000 + nanoseconds;
  }
  return offsets;
}

const ClockOffsets& clock_offsets() {
  static const ClockOffsets offsets = own_clock_offsets();
  return offsets;
}

}  // namespace speed::fs
