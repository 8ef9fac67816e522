#include "fs/registry/observers.hpp"

#include <fcntl.h>

#include "core/observers.hpp"
#include "fs/files.hpp"
#include "speed/error.hpp"
#include "wire/limits.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

namespace {

constexpr mode_t others_write = 022;

void check(const struct stat& status, uid_t owner, const std::string& path) {
  if (!S_ISREG(status.st_mode)) throw ConfigurationError("it is no regular file");
  if (status.st_nlink != 1) throw ConfigurationError("it has a second name");
  if (status.st_uid != 0 && status.st_uid != owner) {
    throw ConfigurationError("it belongs to another user (uid " + std::to_string(status.st_uid) + ") than the root");
  }
  if ((status.st_mode & others_write) != 0) {
    throw ConfigurationError("others can write to it: run `chmod go-w " + path + "`");
  }
}

std::string read(int fd) {
  Bytes data(wire::limits::max_observers_bytes + 1);
  data.resize(read_at(fd, data, 0));
  return std::string(wire::text(data));
}

std::vector<std::string> read_checked(const std::string& root, const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd && errno == ENOENT) return {};
  if (!fd && errno == ELOOP) throw ConfigurationError("it is a link");
  if (!fd) throw_errno(path);
  struct stat owner{};
  if (::stat(root.c_str(), &owner) != 0) throw_errno(root);
  check(status_of(fd.get()), owner.st_uid, path);
  return core::parse_observers(read(fd.get()));
}

}  // namespace

std::vector<std::string> observers_of(const std::string& root) {
  const std::string path = wire::observers_path(root);
  std::string why;
  try {
    return read_checked(root, path);
  } catch (const ConfigurationError& error) {
    why = error.what();
  } catch (const std::system_error& error) {
    why = "it cannot be read: " + error.code().message();
  }
  throw ConfigurationError(path + " lets nobody look at nodes: " + why + "; mend it, or remove it");
}

}  // namespace speed::fs
