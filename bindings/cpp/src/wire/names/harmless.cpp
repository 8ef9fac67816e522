#include "wire/names/harmless.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "wire/value/value_codec.hpp"

namespace speed::wire {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

constexpr std::array acting = std::to_array<Range>(
    {{0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},
     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},     {0x180e, 0x180e},
     {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},   {0xd800, 0xdfff},   {0xfdd0, 0xfdef},
     {0xfeff, 0xfeff},   {0xfff0, 0xfffb},   {0xfffe, 0xffff},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
     {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0x1fffe, 0x1ffff}, {0x2fffe, 0x2ffff},
     {0x3fffe, 0x10ffff}});

bool acts(char32_t code) {
  const auto found = std::ranges::lower_bound(acting, code, {}, &Range::last);
  return found != acting.end() && found->first <= code;
}

// The number of one whole character of UTF-8.
char32_t code_of(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  char32_t code = first & (0x7fU >> character.size());
  for (const char next : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(next) & 0x3fU);
  return code;
}

std::string escape(char32_t code) {
  if (code == '\t') return "\\t";
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  std::array<char, 11> text{};
  const char* const form = code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(text.data(), text.size(), form, static_cast<unsigned>(code));
  return text.data();
}

}  // namespace

std::string harmless(std::string_view text, std::size_t max_characters) {
  std::string shown;
  for (std::size_t at = 0; at < text.size(); --max_characters) {
    if (max_characters == 0) return shown + "…";
    const std::size_t size = character_bytes(text, at);
    const std::string_view next = text.substr(at, std::max<std::size_t>(size, 1));
    const char32_t code = code_of(next);
    shown += size == 0 || acts(code) ? escape(code) : next;
    at += next.size();
  }
  return shown;
}

}  // namespace speed::wire
