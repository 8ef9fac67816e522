#include "fs/registry/entry_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <tuple>

#include "fs/files.hpp"
#include "speed/error.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

namespace {

// What cannot be read may be another's.
bool is_surely(const std::function<bool(const std::string&)>& meant, const std::string& path) {
  try {
    return meant(path);
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace

std::string read_entry_file(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) throw_errno(path);
  const struct stat status = status_of(fd.get());
  if (!S_ISREG(status.st_mode)) throw WireError("BAD_ENTRY", "no regular file");
  if (status.st_size > static_cast<off_t>(wire::limits::max_entry_bytes)) throw WireError("BAD_ENTRY", "too large");
  std::string data(static_cast<std::size_t>(status.st_size), '\0');
  data.resize(read_at(fd.get(), std::as_writable_bytes(std::span(data)), 0));
  return data;
}

void check_reachable(const std::string& root, const std::string& name) {
  const std::string path = wire::entry_path(root, name);
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd && is_failure(errno)) throw_errno(path);
}

bool is_failure(int error) {
  constexpr std::array failing{EIO, ESTALE, EMFILE, ENFILE, ENOMEM, EINTR};
  return std::ranges::find(failing, error) != failing.end();
}

bool remove_entry_file(const std::string& root, const std::string& name,
                       const std::function<bool(const std::string& path)>& is_meant) {
  const std::string path = wire::entry_path(root, name);
  if (!is_meant(path)) return false;
  const std::string aside = wire::child_path(wire::registry_dir(root), unique_name(name));
  put_in_place(AT_FDCWD, path, aside);
  const bool meant = is_surely(is_meant, aside);  // false as well if somebody else removed it first
  // Where its owner published a newer one, or there are no links, the owner's next heartbeat sees to it.
  if (!meant) std::ignore = link(aside.c_str(), path.c_str());
  unlink(aside.c_str());
  return meant;
}

}  // namespace speed::fs
