// A large payload in a slot, a file beside its lane that is written again and again (L-28).
// The envelope in the lane holds the slot head; the slot holds the payload in pieces, each sealed for itself under a key
// that is used for this payload only: a piece of an earlier payload never passes for one of this.
#pragma once

#include <optional>

#include "wire/envelope/aead.hpp"

namespace speed::wire {

struct SlotHead {
  std::uint32_t number = 0;
  std::uint64_t payload_bytes = 0;
  Key key{};
};

using SlotHeadBytes = Block<limits::slot_head_bytes>;

SlotHeadBytes encode_slot_head(const SlotHead& head);
std::optional<SlotHead> decode_slot_head(ByteView data);  // null: BAD_SLOT

// The pieces of one payload: where each lies in the slot, and how it is sealed.
// Threads: not thread-safe; the lock of the link or lane guards it.
class SlotPieces {
 public:
  struct Place {
    std::uint64_t offset;  // in the slot
    std::size_t size;  // with the tag
  };
  static constexpr std::size_t max_sealed_bytes = limits::slot_piece_bytes + limits::tag_bytes;

  SlotPieces(const SlotHead& head, Aead::Direction direction);

  std::size_t count() const { return (payload_bytes_ + limits::slot_piece_bytes - 1) / limits::slot_piece_bytes; }
  std::uint64_t slot_bytes() const {
    return payload_bytes_ + count() * limits::tag_bytes;
  }  // how long the slot is at least
  Place place(std::size_t index) const;

  // Seals piece `index` of the whole payload into the front of `to`.
  void seal(std::size_t index, ByteView payload, std::span<std::byte> to);
  // Opens piece `index` to its place in the whole payload; false if these bytes are not that piece.
  bool open(std::size_t index, ByteView sealed, std::span<std::byte> payload);

 private:
  std::uint64_t payload_bytes_;
  Aead aead_;
};

}  // namespace speed::wire
