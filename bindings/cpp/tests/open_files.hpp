// What this process holds open, as the system tells.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace speed::test {

// By descriptor: where it leads.
inline std::map<int, std::string> open_files() {
  std::map<int, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone) files[std::stoi(entry.path().filename())] = target;
  }
  return files;
}

// How many of them lie under `place` and have a name that holds `part`.
inline std::ptrdiff_t open_under(const std::string& place, const std::string& part = "") {
  return std::ranges::count_if(open_files(), [&](const auto& file) {
    return file.second.starts_with(place) && file.second.find(part, place.size()) != std::string::npos;
  });
}

// How many descriptors that lead there are watched by some epoll of this process.
inline std::size_t watched(const std::string& path) {
  std::size_t count = 0;
  const std::map<int, std::string> files = open_files();
  for (const auto& [fd, target] : files) {
    if (target != "anon_inode:[eventpoll]") continue;
    std::ifstream info("/proc/self/fdinfo/" + std::to_string(fd));
    for (std::string line; std::getline(info, line);) {
      if (!line.starts_with("tfd:")) continue;
      const auto file = files.find(std::stoi(line.substr(4)));
      count += file != files.end() && file->second == path ? 1 : 0;
    }
  }
  return count;
}

}  // namespace speed::test
