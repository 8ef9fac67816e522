// One event on its way to all who subscribe: to those with room at once, then to the others (S-5).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime.hpp"
#include "speed/value.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class Publishing {
 public:
  Publishing(Runtime& node, const std::string& topic, ByteView event, const SendOptions& options)
      : node_(node), topic_(topic), event_(event), options_(options) {}

  Published publish();

 private:
  // One node, or of a family those of which one gets the event.
  struct Recipient {
    std::string family;
    std::vector<std::string> able;
  };

  using Recipients = std::vector<Recipient>;
  enum class Wanted { no, each, shared };

  Recipients recipients();
  Recipients unsettled(Recipients recipients);
  Wanted wants(const wire::Entry& entry) const;
  bool is_settled(Recipient& one);  // whether one got it, or none can; who had no room is left
  void send(const std::string& target);
  void wait_for_room(Recipients full, TimePoint deadline);
  void fail(const std::string& target, std::string_view code, const std::string& text);

  Runtime& node_;
  const std::string& topic_;
  const ByteView event_;
  const SendOptions& options_;
  Published result_;
};

// Many messages in a write: so many of them, or so many bytes and one.

inline constexpr std::size_t messages_in_a_write = 64;
inline constexpr std::size_t bytes_in_a_write = 64 << 10;

// Whether a write is full that has so much in it.
constexpr bool is_full(std::size_t messages, std::size_t bytes) {
  return messages >= messages_in_a_write || bytes >= bytes_in_a_write;
}

// As many of `messages` as leave in one write; at least one, if there are any.
constexpr std::span<const ByteView> first_write(std::span<const ByteView> messages) {
  std::size_t count = 0;
  for (std::size_t bytes = 0; count < messages.size() && !is_full(count, bytes); ++count)
    bytes += messages[count].size();
  return messages.first(count);
}

}  // namespace speed::engine
