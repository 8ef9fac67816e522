#include "fs/keys/key_store.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "fs/clock.hpp"
#include "fs/files.hpp"
#include "fs/registry/root.hpp"
#include "fs/registry/trusted_path.hpp"
#include "speed/error.hpp"
#include "speed/root.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

namespace {

constexpr std::size_t max_bytes = 4096;
constexpr Duration lock_timeout = 10s;  // how long a change of the file by another process is waited for
constexpr mode_t group_reads = 0640;

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::string reason() { return std::generic_category().message(errno); }

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

// Whether something is there, be it a link to nothing.
bool is_taken(const std::string& path) {
  struct stat status = {};
  return lstat(path.c_str(), &status) == 0;
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
void put(const std::string& path, const std::vector<wire::Key>& keys) {
  const std::string temporary = wire::temporary_key_path(path);
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  unlink_quietly(AT_FDCWD, temporary);
  try {
    const Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, private_file));
    if (!fd) throw_errno(temporary);
    give_rights(fd, directory);
    write_all(fd.get(), wire::view(wire::format_key_file(keys)));
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

std::string default_root() {
  if (std::string root = environment("SPEED_ROOT"); !root.empty()) return root;
  const std::string session = environment("XDG_RUNTIME_DIR");
  if (is_private(session)) return wire::child_path(session, "speed");
  const std::string shared = access("/dev/shm", X_OK) == 0 ? "/dev/shm" : "/tmp";
  return wire::child_path(shared, "speed-" + std::to_string(geteuid()));
}

std::string default_key_path(const std::string& root) {
  if (std::string path = environment("SPEED_KEY"); !path.empty()) return path;
  if (const std::string credentials = environment("CREDENTIALS_DIRECTORY"); !credentials.empty()) {
    std::string given = wire::default_key_path(credentials);
    if (access(given.c_str(), F_OK) == 0) return given;
  }
  return wire::default_key_path(root);
}

std::vector<wire::Key> read_key_file(const std::string& path) {
  const Fd fd = open_trusted(path);
  Bytes text(max_bytes + 1);
  text.resize(read_at(fd.get(), text, 0));
  if (text.size() > max_bytes) throw KeyFileError(path + " is too large for a key file: make one with `speed key new`");
  return wire::parse_key_file(wire::text(text));
}

void write_key_file(const std::string& path, const std::vector<wire::Key>& keys) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) throw KeyFileError("cannot write " + path + ": " + reason());
  write_all(fd.get(), wire::view(wire::format_key_file(keys)));
  if (fsync(fd.get()) != 0) throw KeyFileError("cannot write " + path + ": " + reason());
}

bool ensure_key_file(const std::string& path, const std::vector<wire::Key>& keys) {
  if (is_taken(path)) return false;
  try {
    const std::string target = std::filesystem::weakly_canonical(path).string();
    const Lock lock = alone_with(path, target);
    if (is_taken(path)) return false;
    put(target, keys);
    return true;
  } catch (const std::system_error& error) {  // that of <filesystem> is one as well
    cannot_write(path, error.code());
  }
}

namespace {

constexpr Duration look_pause = 1s;  // between two looks that others can bring about

}  // namespace

KeySource::KeySource(const std::string& path)
    : path_(std::filesystem::absolute(path).string()), keyring_(read_key_file(path_)) {
  keyring_.look_with([this] { look_soon(); });
}

std::string KeySource::look() {
  const MutexLock guard(lock_);
  next_look_ = monotonic_now() + look_pause;
  try {
    keyring_.take(read_key_file(path_));
  } catch (const KeyFileError& error) {
    return error.what();
  } catch (const std::system_error& error) {
    return "cannot read the key file " + path_ + ": " + error.code().message();
  }
  return {};
}

void KeySource::look_soon() {
  if (monotonic_now() >= next_look_.load()) look();
}

}  // namespace speed::fs

namespace speed {

namespace {

// Without a slash at its end, which would be an empty name.
std::string absolute(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::absolute(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

wire::Key new_key() {
  if (sodium_init() < 0) throw ConfigurationError("libsodium cannot be initialised on this machine");
  wire::Key key;
  randombytes_buf(key.data(), key.size());
  return key;
}

}  // namespace

std::string init_root(const std::string& root, const std::string& key) {
  const std::string place = absolute(root.empty() ? fs::default_root() : root);
  const std::string file = absolute(key.empty() ? fs::default_key_path(place) : key);
  fs::prepare_root(place);
  fs::ensure_key_file(file, {new_key()});
  fs::read_key_file(file);  // one that was there may be damaged, or open to others
  return place;
}

}  // namespace speed
