#include "wire/key_file.hpp"

#include <sodium.h>

#include <algorithm>

#include "speed/error.hpp"

namespace speed::wire {

namespace {

constexpr char fix[] = "; make one with `speed key new`";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (true) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    const std::size_t last = line.find_last_not_of(" \t\r");
    lines.push_back(last == std::string_view::npos ? std::string_view() : line.substr(0, last + 1));
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

Key parse_key(std::string_view line, std::size_t number) {
  Key key;
  std::size_t size = 0;
  const char* end = nullptr;
  const int failed = sodium_base642bin(raw(std::span<std::byte>(key)), key.size(), line.data(), line.size(), nullptr,
                                       &size, &end, sodium_base64_VARIANT_ORIGINAL);
  if (failed == 0 && size != key.size() && end == line.data() + line.size()) {
    throw KeyFileError("line " + std::to_string(number) + " of the key file has " + std::to_string(size) +
                       " bytes, not " + std::to_string(key.size()) + fix);
  }
  if (failed != 0 || size != key.size() || end != line.data() + line.size() || to_base64(key) != line) {
    throw KeyFileError("line " + std::to_string(number) + " of the key file is not the Base64 of 32 bytes" + fix);
  }
  return key;
}

}  // namespace

std::string to_base64(ByteView bytes) {
  std::string text(sodium_base64_ENCODED_LEN(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(text.data(), text.size(), raw(bytes), bytes.size(), sodium_base64_VARIANT_ORIGINAL);
  text.pop_back();  // the terminating zero
  return text;
}

std::vector<Key> parse_key_file(std::string_view text) {
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) > 0x7f; })) {
    throw KeyFileError(std::string("the key file is no text") + fix);
  }
  const std::vector<std::string_view> lines = lines_of(text);
  if (lines[0] != "SPEED-KEY-V1") throw KeyFileError(std::string("line 1 of the key file is not SPEED-KEY-V1") + fix);
  if (lines.size() < 2 || !lines[1].empty()) {
    throw KeyFileError(std::string("line 2 of the key file is not blank") + fix);
  }
  std::vector<Key> keys;
  for (std::size_t at = 2; at < lines.size(); ++at) {
    if (lines[at].empty()) continue;
    const Key key = parse_key(lines[at], at + 1);
    if (keys.size() == limits::max_keys || std::ranges::find(keys, key) != keys.end()) {
      throw KeyFileError(std::string("the key file has too many keys or one twice") + fix);
    }
    keys.push_back(key);
  }
  if (keys.empty()) throw KeyFileError(std::string("the key file has no key after line 2") + fix);
  return keys;
}

std::string format_key_file(const std::vector<Key>& keys) {
  std::string text = "SPEED-KEY-V1\n\n";
  for (const Key& key : keys) text += to_base64(key) + "\n";
  return text;
}

}  // namespace speed::wire
