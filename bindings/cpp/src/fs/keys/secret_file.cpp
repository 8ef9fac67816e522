#include "fs/keys/secret_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "fs/files.hpp"
#include "fs/registry/root.hpp"
#include "fs/registry/trusted_path.hpp"
#include "speed/error.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

namespace {

constexpr Duration lock_timeout = 10s;  // how long a change of the file by another process is waited for
constexpr mode_t group_reads = 0640;

// Whether this user is in the group of a file. Root chose who reads a file of its own group, or its group's root.
bool is_own_group(const struct stat& status, const struct stat& directory) {
  if ((status.st_gid == 0 && status.st_uid == 0) || who().is_in(status.st_gid)) return true;
  return geteuid() == 0 && core::is_shared(directory.st_mode) && directory.st_gid == status.st_gid;
}

void check_private(const Fd& fd, const std::string& path, const struct stat& directory) {
  const struct stat status = status_of(fd.get());
  if (!S_ISREG(status.st_mode)) throw KeyFileError(path + " is no regular file");
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    throw KeyFileError(path + " belongs to another user (uid " + std::to_string(status.st_uid) + ")");
  }
  if ((status.st_mode & 037) != 0 || ((status.st_mode & 040) != 0 && !is_own_group(status, directory))) {
    throw KeyFileError("others can reach " + path + ": run `chmod 600 " + path +
                       "`, and rotate the key if they may have");
  }
}

// A private file whose way is trusted.
Fd open_trusted(const std::string& path) {
  try {
    const std::string place = followed(path);
    Fd fd(::open(place.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd) throw_errno(path);
    check_private(fd, path, look_at(place.substr(0, place.rfind('/') + 1)));
    return fd;
  } catch (const UntrustedError& error) {
    throw KeyFileError(error.text("use a key file of your own, elsewhere"));
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::no_such_file_or_directory) {
      throw KeyFileError("cannot read the key file " + path + ": " + error.code().message());
    }
    throw KeyFileError("there is no key file " + path + ": make one with `speed root init` or `speed key new`");
  }
}

[[noreturn]] void cannot_write(const std::string& path, const std::error_code& why) {
  throw KeyFileError("cannot write " + path + ": " + why.message() + ": make room, or name another place");
}

// In the root of a group its members read the key.
void give_rights(const Fd& fd, const std::string& directory) {
  const bool shared = is_taken(wire::registry_dir(directory)) && is_groups(directory);
  if (shared && fchmod(fd.get(), group_reads) != 0) throw_errno("fchmod");
}

// Writes beside and renames: the file is whole at every moment. What a killed process left is taken away.
void put(const std::string& path, std::string_view text) {
  const std::string temporary = wire::temporary_key_path(path);
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  unlink_quietly(AT_FDCWD, temporary);
  try {
    const Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, private_file));
    if (!fd) throw_errno(temporary);
    give_rights(fd, directory);
    write_all(fd.get(), wire::view(text));
    if (fsync(fd.get()) != 0) throw_errno("fsync");
    if (rename(temporary.c_str(), path.c_str()) != 0) throw_errno("rename");
    sync_directory(directory);
  } catch (const std::system_error&) {
    unlink_quietly(AT_FDCWD, temporary);
    throw;
  }
}

// The lock of a key file, held as long as it is changed; the same that Python and Java take.
Lock alone_with(const std::string& path, const std::string& target) {
  std::optional<Lock> lock = Lock::take(wire::lock_path(target), lock_timeout);
  if (!lock) throw KeyFileError("another process changes " + path + ": try again when it is done");
  return std::move(*lock);
}

}  // namespace

bool is_taken(const std::string& path) {
  struct stat status = {};
  return lstat(path.c_str(), &status) == 0;
}

SecretFile read_secret(const std::string& path, std::size_t most) {
  const Fd fd = open_trusted(path);
  Bytes text(most + 1);
  text.resize(read_at(fd.get(), text, 0));
  if (text.size() > most) throw KeyFileError(path + " is too large for a key file: make one with `speed key new`");
  return {std::string(wire::text(text)), status_of(fd.get()).st_mode};
}

bool ensure_secret(const std::string& path, std::string_view text) {
  if (is_taken(path)) return false;
  try {
    const std::string target = std::filesystem::weakly_canonical(path).string();
    const Lock lock = alone_with(path, target);
    if (is_taken(path)) return false;
    put(target, text);
    return true;
  } catch (const std::system_error& error) {  // that of <filesystem> is one as well
    cannot_write(path, error.code());
  }
}

void replace_secret(const std::string& path, std::string_view text) {
  try {
    const std::string target = std::filesystem::weakly_canonical(path).string();
    const Lock lock = alone_with(path, target);
    put(target, text);
  } catch (const std::system_error& error) {
    cannot_write(path, error.code());
  }
}

}  // namespace speed::fs
