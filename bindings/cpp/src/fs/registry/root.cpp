#include "fs/registry/root.hpp"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "fs/files.hpp"
#include "fs/registry/trusted_path.hpp"
#include "speed/error.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

namespace {

constexpr std::size_t most_list_bytes = 65536;  // what the kernel allows

void add_list(std::vector<Bytes>& lists, const std::string& path, const char* name) {
  Bytes list(most_list_bytes);
  const ssize_t size = lgetxattr(path.c_str(), name, list.data(), list.size());
  if (size < 0 && errno != ENODATA && errno != EOPNOTSUPP) throw_errno(path);
  if (size < 0) return;
  list.resize(static_cast<std::size_t>(size));
  lists.push_back(std::move(list));
}

// Its own access list, and the one that what is made in it gets.
core::Step looked_at(const std::string& path, const struct stat& status) {
  core::Step step = step_of(status);
  for (const char* const name : {"system.posix_acl_access", "system.posix_acl_default"})
    add_list(step.lists, path, name);
  return step;
}

// What a directory is judged to be; UntrustedError says why it is not trusted.
core::Trust checked(const std::string& path, bool inside) {
  const struct stat status = look_at(path);
  if (!S_ISDIR(status.st_mode)) throw UntrustedError(path + " is no directory");
  const core::Trust trust = core::judge_root(looked_at(path, status), who(), inside);
  const std::string group = std::to_string(status.st_gid);
  switch (trust) {
    case core::Trust::owner:
      throw UntrustedError(path + " belongs to another user (uid " + std::to_string(status.st_uid) + ")");
    case core::Trust::writable:
      throw UntrustedError(
          ((status.st_mode & S_IWOTH) != 0 ? "everybody" : "the group " + group) + " can write to " + path,
          "run `chmod 700 " + path + "`, or `speed root init --group`");
    case core::Trust::listed:
      throw UntrustedError("an access list lets others write to " + path, "run `setfacl -bk " + path + "`");
    case core::Trust::stranger:
      throw UntrustedError(path + " is the root of a group (gid " + group + ") of which this user is no member",
                           "become one and log in again");
    case core::Trust::trusted:
    case core::Trust::group: break;
  }
  return trust;
}

bool is_there(const std::string& path) {
  struct stat status = {};
  return lstat(path.c_str(), &status) == 0;
}

void check_whole(const std::string& root) {
  const core::Trust trust = checked(followed(root), false);
  for (const std::string& path : {wire::registry_dir(root), wire::claims_dir(root)}) {
    if (is_there(path)) checked(path, trust == core::Trust::group);  // it is made where it is missing
  }
}

[[noreturn]] void cannot_make(const std::string& path, int error) {
  throw RootError("cannot make " + path + ": " + std::generic_category().message(error) + "; choose another root");
}

// The root itself, and what lies above it: private, wherever that is.
void make_private(const std::string& path) {
  if (mkdir(path.c_str(), private_directory) != 0 && errno != EEXIST) cannot_make(path, errno);
}

void make_inside(const std::string& path) {
  try {
    make_directory(path);
  } catch (const std::system_error& error) {
    cannot_make(path, error.code().value());
  }
}

void check_usable(const std::string& path) {
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    throw RootError(path + " is not writable for this user: choose another root");
  }
}

}  // namespace

std::string registry_gone(const std::string& root) {
  struct stat status{};
  if (lstat(wire::registry_dir(root).c_str(), &status) == 0 || (errno != ENOENT && errno != ENOTDIR)) return {};
  return "the registry of " + root +
         " is gone: the root was removed or unmounted under its nodes; put it back, or run `speed root init --root " +
         root + "`, and start them anew";
}

void check_root(const std::string& root) {
  try {
    check_whole(root);
  } catch (const UntrustedError& error) {
    throw RootError(error.text("choose another root"));
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::no_such_file_or_directory) return;
    throw RootError("cannot use the root " + root + ": " + error.code().message() + "; choose another root");
  }
}

void prepare_root(const std::string& root) {
  for (std::size_t at = root.find('/', 1); at != std::string::npos; at = root.find('/', at + 1)) {
    const std::string parent = root.substr(0, at);
    if (access(parent.c_str(), F_OK) != 0) make_private(parent);
  }
  make_private(root);
  check_root(root);
  for (const std::string& path : {wire::registry_dir(root), wire::claims_dir(root)}) {
    make_inside(path);
    check_usable(path);
  }
}

bool is_private(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & 077) == 0;
}

}  // namespace speed::fs
