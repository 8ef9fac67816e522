#include "fs/slot/slot_reader.hpp"

#include <sodium.h>

namespace speed::fs {

SlotReader::SlotReader(std::uint32_t generation, const wire::SlotHead& head, wire::Buffers& buffers)
    : slot_{generation, head.number},
      head_bytes_(head.payload_bytes),
      pieces_(head, wire::Aead::Direction::open),
      buffers_(buffers) {}

SlotReader::~SlotReader() {
  buffers_.give(std::move(sealed_));
  if (payload_.size() == 0) return;
  sodium_memzero(payload_.data(), payload_.size());
  buffers_.give(std::move(payload_));
}

// Memory is taken once the slot is known to be as long as it says.
std::optional<SlotReader::State> SlotReader::open(const LaneFiles& files) {
  try {
    file_ = files.open_slot(slot_);
  } catch (const UntrustedFileError&) {
    return State::refused;
  } catch (const std::system_error& error) {
    if (is_gone(error)) return State::absent;
    throw;
  }
  if (is_cut()) return State::absent;
  if (payload_.size() > 0) return std::nullopt;
  payload_ = buffers_.take(head_bytes_);
  payload_.extend(head_bytes_);
  sealed_ = buffers_.take(wire::SlotPieces::max_sealed_bytes);
  return std::nullopt;
}

bool SlotReader::is_cut() const { return file_bytes(file_.get()) < pieces_.slot_bytes(); }

SlotReader::State SlotReader::read(const LaneFiles& files, std::size_t most_bytes, bool sure) {
  if (!file_) {
    if (const std::optional<State> lost = open(files)) return *lost;
  }
  for (std::size_t taken = 0; next_ < pieces_.count(); taken += wire::limits::slot_piece_bytes) {
    if (taken >= most_bytes) return State::unread;
    const bool is_as_it_was = is_refused_ && !sure && !has_changed();
    if (is_as_it_was || !read_piece()) return is_cut() ? State::absent : State::missing;
  }
  return State::whole;
}

wire::Block<wire::limits::tag_bytes> SlotReader::tag_of_next() const {
  const wire::SlotPieces::Place place = pieces_.place(next_);
  wire::Block<wire::limits::tag_bytes> tag{};
  read_at(file_.get(), tag, place.offset + place.size - tag.size());
  return tag;
}

bool SlotReader::has_changed() const { return file_ && (!is_refused_ || tag_of_next() != refused_); }

// The tag is written last and read first: one that is new stands behind a piece that is.
bool SlotReader::read_piece() {
  const wire::SlotPieces::Place place = pieces_.place(next_);
  refused_ = tag_of_next();
  sealed_.clear();
  sealed_.shrink(read_at(file_.get(), sealed_.extend(place.size), place.offset));
  is_refused_ = !pieces_.open(next_, sealed_.view(), {payload_.data(), payload_.size()});
  if (!is_refused_) ++next_;
  return !is_refused_;
}

}  // namespace speed::fs
