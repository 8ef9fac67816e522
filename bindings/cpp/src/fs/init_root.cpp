#include "speed/root.hpp"

#include <sodium.h>

#include <filesystem>

#include "fs/key_store.hpp"
#include "fs/root.hpp"
#include "speed/error.hpp"

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
