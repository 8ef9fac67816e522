#include "fs/key_path.hpp"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <ranges>
#include <string_view>
#include <system_error>
#include <vector>

#include "speed/error.hpp"
#include "wire/names.hpp"

namespace speed::fs {

namespace {

constexpr int max_links = 40;  // as many as Linux follows

using Way = std::vector<std::string>;  // the names still to walk, the next one last

void put_before(Way& way, std::string_view path) {
  Way names;
  for (const auto name : std::views::split(path, '/')) names.emplace_back(name.begin(), name.end());
  way.insert(way.end(), names.rbegin(), names.rend());
}

struct stat looked_at(const std::string& step, const std::string& path) {
  struct stat status = {};
  if (lstat(step.c_str(), &status) != 0) {
    if (errno == ENOENT) {
      throw KeyFileError("there is no key file " + path + ": make one with `speed init` or `speed key new`");
    }
    throw KeyFileError("cannot read the key file " + path + ": " + std::generic_category().message(errno));
  }
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    throw KeyFileError(step + " belongs to another user (uid " + std::to_string(status.st_uid) +
                       "): use a key file of your own");
  }
  return status;
}

// Others may make names in a sticky directory, but not change those of root and of this user.
void check_directory(const std::string& step, const struct stat& status) {
  if ((status.st_mode & 022) == 0 || (status.st_mode & S_ISVTX) != 0) return;
  throw KeyFileError("others can write to " + step + ", and so replace what is below it: run `chmod go-w " + step +
                     "`, or keep the key elsewhere");
}

std::string target_of(const std::string& link) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = readlink(link.c_str(), target.data(), target.size());
  if (size < 0) throw KeyFileError("cannot read the link " + link + ": " + std::generic_category().message(errno));
  target.resize(static_cast<std::size_t>(size));
  return target;
}

// The place so far; a step is its text and the next name.
class Walk {
 public:
  explicit Walk(const std::string& path) : path_(path) {
    put_before(way_, std::filesystem::absolute(path).native());
    check_directory("/", looked_at("/", path));
  }

  std::string end() {
    while (!way_.empty()) {
      const std::string name = std::move(way_.back());
      way_.pop_back();
      if (name == "..") {
        place_.erase(place_.empty() ? 0 : place_.rfind('/'));
      } else if (!name.empty() && name != ".") {
        take(wire::child_path(place_, name));
      }
    }
    return place_.empty() ? "/" : place_;
  }

 private:
  void take(const std::string& step) {
    const struct stat status = looked_at(step, path_);
    if (S_ISLNK(status.st_mode)) return follow(step);
    if (S_ISDIR(status.st_mode)) check_directory(step, status);
    place_ = step;
  }

  void follow(const std::string& link) {
    if (++links_ > max_links) {
      throw KeyFileError(link + " is one of more than " + std::to_string(max_links) +
                         " links: name the key file itself");
    }
    const std::string target = target_of(link);
    put_before(way_, target);
    if (target.starts_with('/')) place_.clear();
  }

  const std::string& path_;
  Way way_;
  std::string place_;
  int links_ = 0;
};

}  // namespace

std::string followed(const std::string& path) { return Walk(path).end(); }

}  // namespace speed::fs
