#include "wire/envelope/cursor.hpp"

#include <algorithm>

#include "speed/error.hpp"

namespace speed::wire {

namespace {

constexpr std::string_view cursor_magic = "SPDC";
constexpr std::string_view fence_magic = "SPDF";
constexpr std::string_view deliveries_magic = "SPDD";
constexpr std::size_t deliveries_head_bytes = 8;
constexpr std::size_t delivered_bytes = 12;
constexpr std::uint8_t version = 1;
constexpr std::uint8_t clean_flag = 1;
constexpr std::uint8_t sealed_flag = 2;
constexpr std::uint64_t begun_bit = std::uint64_t{1} << 63;  // of an offset

void put_magic(std::span<std::byte> data, std::string_view magic) {
  std::ranges::copy(view(magic), data.begin());
  store(data.data() + 4, version);
}

bool has_magic(ByteView data, std::string_view magic) {
  return text(data.first(4)) == magic && load<std::uint8_t>(data.data() + 4) == version;
}

void put_mac(Bytes& data, const Key& lane_key) {
  const ByteView body(data.data(), data.size() - short_mac_bytes);
  std::ranges::copy(ByteView(hmac(lane_key, body)).first(short_mac_bytes), data.end() - short_mac_bytes);
}

bool is_authentic(ByteView data, const std::vector<Key>& lane_keys) {
  const ByteView body = data.first(data.size() - short_mac_bytes);
  return std::ranges::any_of(lane_keys, [&](const Key& key) {
    return same_bytes(ByteView(hmac(key, body)).first(short_mac_bytes), data.last(short_mac_bytes));
  });
}

}  // namespace

ByteView encode_cursor(const Cursor& cursor, MacKey& lane_key, Block<max_cursor_bytes>& to) {
  const std::size_t body = cursor_head_bytes + cursor.unfinished.size() * unfinished_bytes;
  std::byte* at = to.data();
  std::fill_n(at, cursor_head_bytes, std::byte{0});
  put_magic(to, cursor_magic);
  store(at + 5, static_cast<std::uint8_t>((cursor.clean ? clean_flag : 0) | (cursor.sealed ? sealed_flag : 0)));
  store(at + 6, static_cast<std::uint16_t>(cursor.unfinished.size()));
  store(at + 8, cursor.receiver_generation);
  store(at + 16, cursor.position.generation);
  store(at + 20, cursor.position.number);
  store(at + 24, cursor.position.offset);
  store(at + 32, cursor.last_sequence);
  at += cursor_head_bytes;
  for (const Unfinished& one : cursor.unfinished) {
    store(at, one.sequence);
    store(at + 8, one.start.number);
    store(at + 12, one.start.generation);
    store(at + 16, one.begun ? one.start.offset | begun_bit : one.start.offset);
    at += unfinished_bytes;
  }
  const Mac mac = lane_key.of(ByteView(to).first(body));
  copy_to(at, ByteView(mac).first(short_mac_bytes));
  return ByteView(to).first(body + short_mac_bytes);
}

Bytes encode_cursor(const Cursor& cursor, const Key& lane_key) {
  MacKey key(lane_key);
  Block<max_cursor_bytes> block;
  const ByteView data = encode_cursor(cursor, key, block);
  return {data.begin(), data.end()};
}

Cursor decode_cursor(ByteView data, const std::vector<Key>& lane_keys) {
  if (data.size() < cursor_head_bytes + short_mac_bytes) throw WireError("BAD_CURSOR", "too short");
  const std::byte* at = data.data();
  const std::size_t count = load<std::uint16_t>(at + 6);
  const std::size_t length = cursor_head_bytes + count * unfinished_bytes + short_mac_bytes;
  if (!has_magic(data, cursor_magic) || count > limits::max_unfinished || data.size() < length) {
    throw WireError("BAD_CURSOR", "no cursor of version 1");
  }
  if (!is_authentic(data.first(length), lane_keys)) throw WireError("BAD_CURSOR", "the MAC does not fit");
  Cursor cursor;
  const auto flags = load<std::uint8_t>(at + 5);
  cursor.clean = (flags & clean_flag) != 0;
  cursor.sealed = (flags & sealed_flag) != 0;
  cursor.receiver_generation = load<std::uint32_t>(at + 8);
  cursor.position = {load<std::uint32_t>(at + 16), load<std::uint32_t>(at + 20), load<std::uint64_t>(at + 24)};
  cursor.last_sequence = load<std::uint64_t>(at + 32);
  at += cursor_head_bytes;
  for (std::size_t index = 0; index < count; ++index, at += unfinished_bytes) {
    const auto offset = load<std::uint64_t>(at + 16);
    cursor.unfinished.push_back({load<std::uint64_t>(at),
                                 {load<std::uint32_t>(at + 12), load<std::uint32_t>(at + 8), offset & ~begun_bit},
                                 (offset & begun_bit) != 0});
  }
  return cursor;
}

Bytes encode_deliveries(const Deliveries& deliveries, const Key& lane_key) {
  Bytes data(deliveries_head_bytes + deliveries.size() * delivered_bytes + short_mac_bytes);
  put_magic(data, deliveries_magic);
  store(data.data() + 6, static_cast<std::uint16_t>(deliveries.size()));
  std::byte* at = data.data() + deliveries_head_bytes;
  for (const auto& [sequence, count] : deliveries) {
    store(at, sequence);
    store(at + 8, count);
    at += delivered_bytes;
  }
  put_mac(data, lane_key);
  return data;
}

Deliveries decode_deliveries(ByteView data, const std::vector<Key>& lane_keys) {
  if (data.size() < deliveries_head_bytes + short_mac_bytes) throw WireError("BAD_CURSOR", "too short");
  const std::size_t count = load<std::uint16_t>(data.data() + 6);
  if (!has_magic(data, deliveries_magic) || count > max_deliveries_listed ||
      data.size() != deliveries_head_bytes + count * delivered_bytes + short_mac_bytes) {
    throw WireError("BAD_CURSOR", "no deliveries of version 1");
  }
  if (!is_authentic(data, lane_keys)) throw WireError("BAD_CURSOR", "the MAC does not fit");
  Deliveries deliveries;
  const std::byte* at = data.data() + deliveries_head_bytes;
  for (std::size_t index = 0; index < count; ++index, at += delivered_bytes) {
    deliveries[load<std::uint64_t>(at)] = load<std::uint32_t>(at + 8);
  }
  return deliveries;
}

Bytes encode_fence(const Fence& fence, const Key& lane_key) {
  Bytes data(fence_bytes);
  std::byte* const at = data.data();
  put_magic(data, fence_magic);
  store(at + 8, fence.new_generation);
  store(at + 12, fence.old.generation);
  store(at + 16, fence.old.number);
  store(at + 24, fence.size);
  put_mac(data, lane_key);
  return data;
}

Fence decode_fence(ByteView data, const std::vector<Key>& lane_keys) {
  if (data.size() != fence_bytes || !has_magic(data, fence_magic)) {
    throw WireError("BAD_FENCE", "no fence of version 1");
  }
  if (!is_authentic(data, lane_keys)) throw WireError("BAD_FENCE", "the MAC does not fit");
  const std::byte* const at = data.data();
  return {load<std::uint32_t>(at + 8),
          {load<std::uint32_t>(at + 12), load<std::uint32_t>(at + 16)},
          load<std::uint64_t>(at + 24)};
}

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
  if (data.size() != floor_bytes || text(data.first(head.size())) != head)
    throw WireError("BAD_FLOOR", "no floor file");
  const ByteView body = data.first(floor_bytes - mac_bytes);
  const auto made = [&](const Key& key) { return same_bytes(mac_of(key, body), data.last(mac_bytes)); };
  if (std::ranges::none_of(registry_keys, made)) {
    throw WireError("BAD_FLOOR", "the MAC does not fit: altered, or of another key");
  }
  Floors floors{};
  for (std::size_t at = 0; at < floors.size(); ++at)
    floors[at] = load<std::uint32_t>(body.data() + head.size() + 4 * at);
  return floors;
}

}  // namespace speed::wire
