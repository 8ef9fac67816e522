#include "wire/envelope/slot.hpp"

#include <algorithm>

#include "wire/value/bytes.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t number_at = 0;
constexpr std::size_t reserved_at = 4;
constexpr std::size_t size_at = 8;
constexpr std::size_t key_at = 16;
static_assert(key_at + sizeof(Key) == limits::slot_head_bytes);

Nonce nonce_of(std::size_t index) {
  Nonce nonce{};
  store(nonce.data() + 4, std::uint64_t{index});
  return nonce;
}

}  // namespace

SlotHeadBytes encode_slot_head(const SlotHead& head) {
  SlotHeadBytes data{};
  store(data.data() + number_at, head.number);
  store(data.data() + size_at, head.payload_bytes);
  copy_to(data.data() + key_at, head.key);
  return data;
}

std::optional<SlotHead> decode_slot_head(ByteView data) {
  if (data.size() != limits::slot_head_bytes) return std::nullopt;
  SlotHead head{load<std::uint32_t>(data.data() + number_at), load<std::uint64_t>(data.data() + size_at), {}};
  std::ranges::copy(data.subspan(key_at), head.key.begin());
  const bool is_slot = head.number >= 1 && head.number <= limits::max_slots;
  const bool fits = head.payload_bytes >= 1 && head.payload_bytes <= limits::max_payload_bytes;
  if (load<std::uint32_t>(data.data() + reserved_at) != 0 || !is_slot || !fits) return std::nullopt;
  return head;
}

SlotPieces::SlotPieces(const SlotHead& head, Aead::Direction direction)
    : payload_bytes_(head.payload_bytes), aead_(head.key, direction) {}

SlotPieces::Place SlotPieces::place(std::size_t index) const {
  const std::uint64_t left = payload_bytes_ - index * limits::slot_piece_bytes;
  const std::size_t size = std::min<std::uint64_t>(limits::slot_piece_bytes, left);
  return {index * max_sealed_bytes, size + limits::tag_bytes};
}

void SlotPieces::seal(std::size_t index, ByteView payload, std::span<std::byte> to) {
  const std::size_t size = place(index).size;
  const ByteView plain = payload.subspan(index * limits::slot_piece_bytes, size - limits::tag_bytes);
  aead_.seal(nonce_of(index), {}, plain, to.first(size));
}

bool SlotPieces::open(std::size_t index, ByteView sealed, std::span<std::byte> payload) {
  const std::size_t size = place(index).size;
  if (sealed.size() != size) return false;
  const auto to = payload.subspan(index * limits::slot_piece_bytes, size - limits::tag_bytes);
  return aead_.open(nonce_of(index), {}, sealed, to);
}

}  // namespace speed::wire
