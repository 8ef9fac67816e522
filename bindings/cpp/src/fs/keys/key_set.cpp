// Sets of message keys in files and in the environment.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "fs/files.hpp"
#include "message/key.hpp"
#include "speed/error.hpp"
#include "speed/message_error.hpp"

namespace speed {

namespace {

using Keys = std::vector<MessageKey>;

constexpr std::size_t max_bytes = 1 << 20;
constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
constexpr mode_t others = 077;
constexpr mode_t others_write = 022;
constexpr std::string_view between = "://";

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw KeyRefusedError("key set " + where + ": " + why);
}

[[noreturn]] void fail(const std::string& path, const std::error_code& error) {
  const bool is_refused = error == std::errc::permission_denied || error == std::errc::operation_not_permitted ||
                          error == std::errc::too_many_symbolic_link_levels;
  if (is_refused) refuse(path, error.message());
  throw KeyUnavailableError("key set " + path + ": " + error.message());
}

Keys parsed(std::string_view text, const std::string& where) {
  if (text.size() > max_bytes) refuse(where, "is larger than " + std::to_string(max_bytes) + " bytes");
  try {
    return message::parse_key_set(text);
  } catch (const KeyRefusedError& error) {
    refuse(where, error.what());
  }
}

fs::Fd opened(const std::string& path) {
  fs::Fd fd(::open(path.c_str(), flags));
  if (!fd) fs::throw_errno("open");
  return fd;
}

Keys keys_in(const std::string& path) {
  const fs::Fd fd = opened(path);
  const struct stat status = fs::status_of(fd.get());
  if (!S_ISREG(status.st_mode) || (status.st_uid != geteuid() && status.st_uid != 0)) {
    refuse(path, "is no regular file of this user");
  }
  Bytes text(max_bytes + 1);
  text.resize(fs::read_at(fd.get(), text, 0));
  Keys keys = parsed(wire::text(text), path);
  const bool is_secret = std::ranges::any_of(keys, &MessageKey::has_secret);
  if ((status.st_mode & others_write) != 0 || (is_secret && (status.st_mode & others) != 0)) {
    refuse(path, "others may read or write it: chmod 600 " + path);
  }
  return keys;
}

Keys of_file(const std::string& path) {
  try {
    return keys_in(path);
  } catch (const std::system_error& error) {
    fail(path, error.code());
  }
}

Keys of_variable(const std::string& name) {
  const char* const text = std::getenv(name.c_str());
  if (text == nullptr) throw KeyUnavailableError("key set env://" + name + ": there is no such variable");
  return parsed(text, "env://" + name);
}

// What two hex digits stand for.
std::optional<char> escaped(std::string_view digits) {
  unsigned char byte = 0;
  if (digits.size() < 2) return std::nullopt;
  const char* const end = digits.data() + 2;
  if (std::from_chars(digits.data(), end, byte, 16).ptr != end) return std::nullopt;
  return static_cast<char>(byte);
}

// Null for what is no absolute path, or ends in the middle of a `%2F`.
std::optional<std::string> path_of(std::string_view text) {
  if (!text.starts_with('/') || text.find_first_of("?#") != std::string_view::npos) return std::nullopt;
  std::string path;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::optional<char> c = text[at] == '%' ? escaped(text.substr(at + 1)) : std::optional(text[at]);
    if (!c || *c == '\0') return std::nullopt;
    path += *c;
    if (text[at] == '%') at += 2;
  }
  return path;
}

bool is_scheme(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !text.empty() && std::ranges::all_of(text, is_letter);
}

}  // namespace

// What else it says is not shown: a key may have been given in its place.
std::vector<MessageKey> read_key_set(std::string_view uri) {
  const std::string_view scheme = uri.substr(0, uri.find(between));
  if (scheme.size() == uri.size() || !is_scheme(scheme)) {
    throw ConfigurationError("where keys are is no URI: use file:///etc/speed/keys.json or env://NAME");
  }
  const std::string_view rest = uri.substr(scheme.size() + between.size());
  if (scheme == "file") {
    const std::optional<std::string> path = path_of(rest);
    if (path) return of_file(*path);
    throw ConfigurationError("file:// needs an absolute path, such as file:///etc/speed/keys.json");
  }
  if (scheme == "env") {
    if (!rest.empty() && rest.find_first_of("/?#") == std::string_view::npos) return of_variable(std::string(rest));
    throw ConfigurationError("env:// needs the name of a variable, such as env://ORDERS_KEYS");
  }
  throw ConfigurationError("no key provider for '" + std::string(scheme) + "://'; there are file, env");
}

}  // namespace speed
