#include <cstring>

#include "wire/value/value_codec.hpp"

namespace speed::wire {

namespace {

bool is_tail(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

constexpr std::size_t run_bytes = 8;

// Most text is ASCII: eight characters are looked at together.
bool is_ascii_run(std::string_view text, std::size_t at) {
  if (text.size() - at < run_bytes) return false;
  std::uint64_t run = 0;
  std::memcpy(&run, text.data() + at, run_bytes);
  return (run & 0x8080808080808080) == 0;
}

}  // namespace

std::size_t character_bytes(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4 || !is_tail(text, at + 1)) return 0;
  const auto second = static_cast<unsigned char>(text[at + 1]);
  if (first < 0xe0) return 2;
  if (first == 0xe0 && second < 0xa0) return 0;
  if (first == 0xed && second > 0x9f) return 0;
  if (!is_tail(text, at + 2)) return 0;
  if (first < 0xf0) return 3;
  if (first == 0xf0 && second < 0x90) return 0;
  if (first == 0xf4 && second > 0x8f) return 0;
  return is_tail(text, at + 3) ? 4 : 0;
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (is_ascii_run(text, at)) {
      at += run_bytes;
      continue;
    }
    const std::size_t size = character_bytes(text, at);
    if (size == 0) return false;
    at += size;
  }
  return true;
}

std::string readable(std::string_view text, std::size_t most) {
  std::string clean;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character_bytes(text, at);
    const std::string_view next = size == 0 ? "?" : text.substr(at, size);
    if (clean.size() + next.size() > most) break;
    clean += next;
    at += next.size();
  }
  return clean;
}

std::string readable_characters(std::string_view text, std::size_t most) {
  std::string clean;
  for (std::size_t at = 0; at < text.size() && most > 0; --most) {
    const std::size_t size = character_bytes(text, at);
    clean += size == 0 ? "?" : text.substr(at, size);
    at += size == 0 ? 1 : size;
  }
  return clean;
}

}  // namespace speed::wire
