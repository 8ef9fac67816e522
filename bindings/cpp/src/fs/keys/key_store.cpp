#include "fs/keys/key_store.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "fs/clock.hpp"
#include "fs/files.hpp"
#include "fs/keys/secret_file.hpp"
#include "fs/registry/root.hpp"
#include "fs/registry/trusted_path.hpp"
#include "speed/error.hpp"
#include "speed/root.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

namespace {

constexpr std::size_t max_bytes = 4096;

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::string reason() { return std::generic_category().message(errno); }

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
  return wire::parse_key_file(read_secret(path, max_bytes).text);
}

void write_key_file(const std::string& path, const std::vector<wire::Key>& keys) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) throw KeyFileError("cannot write " + path + ": " + reason());
  write_all(fd.get(), wire::view(wire::format_key_file(keys)));
  if (fsync(fd.get()) != 0) throw KeyFileError("cannot write " + path + ": " + reason());
}

bool ensure_key_file(const std::string& path, const std::vector<wire::Key>& keys) {
  return ensure_secret(path, wire::format_key_file(keys));
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
