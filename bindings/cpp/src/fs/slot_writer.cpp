#include "fs/slot_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "wire/names.hpp"

namespace speed::fs {

namespace {

void write_at(int fd, ByteView data, std::uint64_t offset) {
  while (!data.empty()) {
    const ssize_t count = pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno("pwrite");
    data = data.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

// Space that is reserved cannot be missing once the envelope is in the lane.
void reserve(int fd, std::uint64_t bytes) {
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (error != 0) throw std::system_error(error, std::generic_category(), "posix_fallocate");
}

}  // namespace

void SlotWriter::commit(const wire::Cursor& cursor) {
  for (Slot& slot : slots_) {
    const auto is_it = [&](const wire::Unfinished& entry) { return entry.sequence == slot.sequence; };
    if (slot.sequence > cursor.last_sequence || std::ranges::any_of(cursor.unfinished, is_it)) continue;
    slot.sequence = 0;
    slot.payload_bytes = 0;
  }
}

std::uint32_t SlotWriter::take(int lane, const wire::SlotPieces& pieces) {
  Slot* slot = free_slot(pieces.slot_bytes());
  if (slot != nullptr && !reopen(lane, *slot)) {
    slots_.erase(slots_.begin() + (slot - slots_.data()));
    return take(lane, pieces);
  }
  if (slot == nullptr) slot = make(lane);
  if (slot == nullptr) return 0;
  if (slot->capacity < pieces.slot_bytes()) {
    reserve(file_.get(), pieces.slot_bytes());
    slot->capacity = pieces.slot_bytes();
  }
  return slot->number;
}

// False if somebody removed it.
bool SlotWriter::reopen(int lane, const Slot& slot) {
  try {
    file_ = open_regular(lane, name_of(slot.number), owners_of(lane), true);
    return true;
  } catch (const std::system_error& error) {
    if (is_gone(error)) return false;
    throw;
  }
}

// The smallest that is large enough, or the largest that can grow.
SlotWriter::Slot* SlotWriter::free_slot(std::uint64_t bytes) {
  const auto fits = [&](const Slot& slot) { return slot.capacity >= bytes; };
  const auto is_better = [&](const Slot& one, const Slot& other) {
    if (fits(one) != fits(other)) return fits(one);
    return fits(one) ? one.capacity < other.capacity : one.capacity > other.capacity;
  };
  Slot* best = nullptr;
  for (Slot& slot : slots_) {
    if (slot.sequence == 0 && (best == nullptr || is_better(slot, *best))) best = &slot;
  }
  return best;
}

// Numbers that somebody else took are passed over.
SlotWriter::Slot* SlotWriter::make(int lane) {
  for (std::uint32_t number = 1; number <= wire::limits::max_slots; ++number) {
    if (std::ranges::find(slots_, number, &Slot::number) != slots_.end()) continue;
    try {
      file_ = create_file(lane, name_of(number), false);
    } catch (const std::system_error& error) {
      if (error.code().value() != EEXIST) throw;
      continue;
    }
    ++made_;
    return &slots_.emplace_back(Slot{number});
  }
  return nullptr;
}

void SlotWriter::use(std::uint32_t number, std::uint64_t sequence, std::uint64_t payload_bytes) {
  const auto slot = std::ranges::find(slots_, number, &Slot::number);
  if (slot == slots_.end()) throw std::system_error(ENOENT, std::generic_category(), "the lane was put aside meanwhile");
  slot->sequence = sequence;
  slot->payload_bytes = payload_bytes;
  slot->is_idle = false;
}

void SlotWriter::write(int lane, std::uint32_t number, wire::SlotPieces& pieces, ByteView payload, bool durable) {
  const Fd file = std::move(file_);
  sealed_.clear();
  const std::span<std::byte> room = sealed_.extend(wire::SlotPieces::max_sealed_bytes);
  try {
    for (std::size_t index = 0; index < pieces.count(); ++index) {
      const wire::SlotPieces::Place place = pieces.place(index);
      pieces.seal(index, payload, room);
      write_at(file.get(), room.first(place.size), place.offset);
    }
    if (durable && fdatasync(file.get()) != 0) throw_errno("fdatasync");
  } catch (...) {
    const auto slot = std::ranges::find(slots_, number, &Slot::number);
    slot->capacity = 0;
    if (ftruncate(file.get(), 0) != 0) unlink_quietly(lane, name_of(number));  // either tells the reader
    throw;
  }
}

std::uint64_t SlotWriter::bytes() const {
  std::uint64_t total = 0;
  for (const Slot& slot : slots_) total += slot.payload_bytes;
  return total;
}

void SlotWriter::tidy(int lane, bool also_new) {
  std::erase_if(slots_, [&](Slot& slot) {
    if (slot.sequence != 0) return false;
    const bool goes = also_new || slot.is_idle;
    slot.is_idle = true;
    if (goes) unlink_quietly(lane, name_of(slot.number));
    return goes;
  });
  if (slots_.empty()) sealed_.trim(0);
}

}  // namespace speed::fs
