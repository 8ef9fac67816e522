#include "fs/registry/trusted_path.hpp"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "fs/files.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

namespace {

constexpr int max_links = 40;  // as many as Linux follows

using Steps = std::vector<std::string>;  // the names still to walk, the next one last

void put_before(Steps& ahead, std::string_view path) {
  Steps names;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    names.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  ahead.insert(ahead.end(), names.rbegin(), names.rend());
}

void check(const std::string& step, const struct stat& status, const core::User& me, bool is_last) {
  const core::Trust trust = core::judge_step(step_of(status), me);
  if (trust == core::Trust::owner) {
    throw UntrustedError(step + " belongs to another user (uid " + std::to_string(status.st_uid) + ")");
  }
  if (trust != core::Trust::writable || is_last) return;
  const std::string cure = std::string("chmod ") + ((status.st_mode & S_ISGID) != 0 ? "+t " : "go-w ") + step;
  throw UntrustedError("others can write to " + step + ", and so replace what is below it", "run `" + cure + "`");
}

std::string target_of(const std::string& link) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = readlink(link.c_str(), target.data(), target.size());
  if (size < 0) throw_errno(link);
  target.resize(static_cast<std::size_t>(size));
  return target;
}

// The place so far; a step is its text and the next name.
class Walk {
 public:
  explicit Walk(const std::string& path) {
    put_before(ahead_, std::filesystem::absolute(path).native());
    check("/", look_at("/"), me_, false);
  }

  std::string end() {
    while (!ahead_.empty()) {
      const std::string name = std::move(ahead_.back());
      ahead_.pop_back();
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
    const struct stat status = look_at(step);
    check(step, status, me_, ahead_.empty());
    if (S_ISLNK(status.st_mode)) return follow(step);
    place_ = step;
  }

  void follow(const std::string& link) {
    if (++links_ > max_links) {
      throw UntrustedError(link + " is one of more than " + std::to_string(max_links) + " links");
    }
    const std::string target = target_of(link);
    put_before(ahead_, target);
    if (target.starts_with('/')) place_.clear();
  }

  const core::User me_ = who();
  Steps ahead_;
  std::string place_;
  int links_ = 0;
};

}  // namespace

core::User who() {
  core::User me{geteuid(), {}};
  me.groups.resize(static_cast<std::size_t>(std::max(0, getgroups(0, nullptr))));
  const int count = getgroups(static_cast<int>(me.groups.size()), me.groups.data());
  me.groups.resize(static_cast<std::size_t>(std::max(0, count)));
  me.groups.push_back(getegid());
  return me;
}

struct stat look_at(const std::string& path) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) throw_errno(path);
  return status;
}

core::Step step_of(const struct stat& status) { return {status.st_uid, status.st_gid, status.st_mode, {}}; }

std::string followed(const std::string& path) { return Walk(path).end(); }

}  // namespace speed::fs
