// Lists of names: nodes, families, topics, namespaces, sets of keys. Threads: plain data.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "speed/export.hpp"

namespace speed {

// One name in a list that is written out. It is made of one text only: `{"a", "b"}` would make a std::string of the
// characters from one address to another.
struct Name {
  template <std::convertible_to<std::string_view> Text>
  Name(const Text& one) : text(one) {}

  std::string_view text;  // for as long as what it was made of
};

// A std::vector<std::string> that `{"a", "b"}` and `{{"a", "b"}}` make of the same two names.
class SPEED_EXPORT Names : public std::vector<std::string> {
 public:
  Names() = default;
  Names(std::initializer_list<Name> names) {
    reserve(names.size());
    for (const Name& name : names) emplace_back(name.text);
  }
  Names(std::vector<std::string> names) : std::vector<std::string>(std::move(names)) {}
};

// Who may call a service: all whom the node allows (std::nullopt), or these of them. An empty list, `{}` too, is nobody.
class SPEED_EXPORT Callers : public std::optional<std::vector<std::string>> {
 public:
  Callers() : Callers(std::vector<std::string>()) {}
  Callers(std::nullopt_t) {}
  Callers(std::initializer_list<Name> names) : Callers(Names(names)) {}
  Callers(std::vector<std::string> names) : std::optional<std::vector<std::string>>(std::move(names)) {}
  Callers(std::optional<std::vector<std::string>> names) : std::optional<std::vector<std::string>>(std::move(names)) {}
};

}  // namespace speed
