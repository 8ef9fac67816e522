// One payload in a slot while its sender may still write it (L-30).
// Pieces are read into private memory before they are verified; the payload is nobody's before its last piece was.
// Threads: not thread-safe; the lane's lock guards it.
#pragma once

#include "fs/lane/lane_files.hpp"
#include "wire/envelope/slot.hpp"
#include "wire/value/buffer.hpp"

namespace speed::fs {

class SlotReader {
 public:
  enum class State {
    unread,   // more may be there: the lane gave others their turn
    missing,  // the next piece is not there
    absent,   // nor will it be: no such slot, or one too short
    refused,  // what stands in its place is not to be read
    whole,
  };

  SlotReader(std::uint32_t generation, const wire::SlotHead& head, wire::Buffers& buffers);
  SlotReader(SlotReader&&) = default;
  SlotReader& operator=(SlotReader&&) = delete;
  ~SlotReader();  // what was opened and not taken is wiped

  // Opens the pieces that are there, at most `most_bytes` of them. std::system_error if the filesystem fails.
  // `sure`: the next piece is looked at, whether or not it seems to be as it was.
  State read(const LaneFiles& files, std::size_t most_bytes, bool sure = false);
  // Whether the next piece may have been written since it was found missing; no at rest, where the bell tells.
  bool has_changed() const;

  void rest() { file_.close(); }  // holds nothing open until the next read
  std::string name() const { return wire::slot_name(slot_); }
  std::size_t pieces_read() const { return next_; }
  ByteView sealed() const { return sealed_.view(); }  // the piece that was read last
  std::uint64_t offset() const { return pieces_.place(next_).offset; }  // of that which is missing
  wire::Buffer take() { return std::move(payload_); }  // of one that is whole

 private:
  std::optional<State> open(const LaneFiles& files);  // null: it is open
  bool is_cut() const;  // shorter than the payload needs
  bool read_piece();
  wire::Block<wire::limits::tag_bytes> tag_of_next() const;

  wire::LaneFileName slot_;
  std::uint64_t head_bytes_;
  wire::SlotPieces pieces_;
  wire::Buffers& buffers_;
  Fd file_;
  wire::Buffer payload_;
  wire::Buffer sealed_;
  std::size_t next_ = 0;  // piece
  wire::Block<wire::limits::tag_bytes> refused_{};  // the tag of the next piece before it did not verify
  bool is_refused_ = false;
};

}  // namespace speed::fs
