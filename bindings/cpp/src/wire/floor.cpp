#include "wire/floor.hpp"

#include <algorithm>

#include "speed/error.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t mac_bytes = 16;
constexpr std::string_view head("SPDR\x01\0\0\0", 8);

Block<mac_bytes> mac_of(const Key& registry_key, ByteView body) {
  const Mac mac = hmac(registry_key, body);
  Block<mac_bytes> first;
  std::copy_n(mac.begin(), mac_bytes, first.begin());
  return first;
}

}  // namespace

Bytes encode_floors(const Floors& floors, const Key& registry_key) {
  Bytes data(floor_bytes - mac_bytes);
  copy_to(data.data(), view(head));
  for (std::size_t at = 0; at < floors.size(); ++at) store(data.data() + head.size() + 4 * at, floors[at]);
  append(data, mac_of(registry_key, data));
  return data;
}

Floors decode_floors(ByteView data, const std::vector<Key>& registry_keys) {
  if (data.size() != floor_bytes || text(data.first(head.size())) != head) throw WireError("BAD_FLOOR", "no floor file");
  const ByteView body = data.first(floor_bytes - mac_bytes);
  const auto made = [&](const Key& key) { return same_bytes(mac_of(key, body), data.last(mac_bytes)); };
  if (std::ranges::none_of(registry_keys, made)) {
    throw WireError("BAD_FLOOR", "the MAC does not fit: altered, or of another key");
  }
  Floors floors{};
  for (std::size_t at = 0; at < floors.size(); ++at) floors[at] = load<std::uint32_t>(body.data() + head.size() + 4 * at);
  return floors;
}

}  // namespace speed::wire
