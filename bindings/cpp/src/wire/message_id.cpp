// Ids of messages (M-13).
#include <sodium.h>

#include "speed/error.hpp"
#include "wire/bytes.hpp"
#include "wire/message.hpp"
#include "wire/records.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t number_bytes = 6;

std::string uuid(Block<16> id, std::byte version) {
  id[6] = (id[6] & std::byte{0x0f}) | version;
  id[8] = (id[8] & std::byte{0x3f}) | std::byte{0x80};
  const std::string hex = to_hex(id);
  std::string text;
  text.reserve(36);
  for (const auto& [from, size] : {std::pair{0, 8}, {8, 4}, {12, 4}, {16, 4}, {20, 12}}) {
    if (from > 0) text += '-';
    text.append(hex, static_cast<std::size_t>(from), static_cast<std::size_t>(size));
  }
  return text;
}

void put_number(std::uint64_t number, std::byte* to) {
  Block<8> bytes;
  store(bytes.data(), number);
  std::copy_n(bytes.begin() + 2, number_bytes, to);
}

Block<crypto_hash_sha256_BYTES> hash_of(const std::vector<std::string>& names) {
  Buffer text;
  for (const std::string& name : names) {
    put_varint(name.size(), text);
    text.append(view(name));
  }
  Block<crypto_hash_sha256_BYTES> digest;
  crypto_hash_sha256(raw(std::span<std::byte>(digest)), raw(text.view()), text.view().size());
  return digest;
}

}  // namespace

std::string new_message_id(std::uint64_t unix_ms, const Block<10>& random) {
  Block<16> id;
  put_number(unix_ms, id.data());
  std::copy(random.begin(), random.end(), id.begin() + number_bytes);
  return uuid(id, std::byte{0x70});
}

std::string repeated_message_id(const std::vector<std::string>& names, std::uint64_t number) {
  if (number >> 48 != 0) throw WireError("BAD_MESSAGE", "message_id: a work makes at most 2^48 messages");
  const auto digest = hash_of(names);
  Block<16> id;
  std::copy_n(digest.begin(), id.size() - number_bytes, id.begin());
  put_number(number, id.data() + id.size() - number_bytes);
  return uuid(id, std::byte{0x80});
}

}  // namespace speed::wire
