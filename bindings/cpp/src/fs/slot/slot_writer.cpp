#include "fs/slot/slot_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "wire/names/names.hpp"

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

// Makes a file so long; one that cannot grow stays as it was.
void resize(int fd, std::uint64_t bytes) {
  const std::uint64_t before = file_bytes(fd);
  if (before == bytes) return;
  if (before > bytes) {
    if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) throw_errno("ftruncate");
    return;
  }
  try {
    reserve(fd, bytes);
  } catch (...) {
    static_cast<void>(ftruncate(fd, static_cast<off_t>(before)) == 0);
    throw;
  }
}

}  // namespace

void SlotWriter::commit(const wire::Cursor& cursor) {
  for (Slot& slot : slots_) {
    const auto is_it = [&](const wire::Unfinished& entry) { return entry.sequence == slot.sequence; };
    if (slot.sequence > cursor.last_sequence || std::ranges::any_of(cursor.unfinished, is_it)) continue;
    slot.sequence = 0;
  }
}

std::uint32_t SlotWriter::take(int lane, const wire::SlotPieces& pieces, std::uint64_t room) {
  file_.close();
  std::vector<std::uint32_t> foreign;  // numbers that somebody else took are passed over
  while (true) {
    std::vector<core::KnownSlot> slots = known();
    for (const std::uint32_t number : foreign) slots.push_back({number, 0, false});
    const core::SlotChoice choice = core::choose_slot(slots, pieces.slot_bytes(), room);
    if (choice.number == 0) return 0;
    for (const std::uint32_t number : choice.removed) remove(lane, number);
    if (!open(lane, choice.number, foreign)) continue;
    find(choice.number)->capacity = resized(choice.file_bytes);
    return taken_ = choice.number;
  }
}

std::uint64_t SlotWriter::resized(std::uint64_t bytes) {
  try {
    resize(file_.get(), bytes);
  } catch (...) {
    file_.close();
    throw;
  }
  return bytes;
}

std::vector<core::KnownSlot> SlotWriter::known() const {
  std::vector<core::KnownSlot> known;
  for (const Slot& slot : slots_) known.push_back({slot.number, slot.capacity, slot.sequence == 0});
  return known;
}

std::vector<SlotWriter::Slot>::iterator SlotWriter::find(std::uint32_t number) {
  return std::ranges::find(slots_, number, &Slot::number);
}

bool SlotWriter::is_free(const Slot& slot) const { return slot.sequence == 0 && !(file_ && slot.number == taken_); }

// False if it is to be chosen anew: somebody removed it, or its number is another's.
bool SlotWriter::open(int lane, std::uint32_t number, std::vector<std::uint32_t>& foreign) {
  const bool is_new = find(number) == slots_.end();
  try {
    file_ =
        is_new ? create_file(lane, name_of(number), false) : open_regular(lane, name_of(number), owners_of(lane), true);
  } catch (const std::system_error& error) {
    if (!is_new && is_gone(error)) {
      slots_.erase(find(number));
    } else if (is_new && error.code().value() == EEXIST) {
      foreign.push_back(number);
    } else {
      throw;
    }
    return false;
  }
  if (is_new) {
    ++made_;
    slots_.push_back({number});
  }
  return true;
}

void SlotWriter::remove(int lane, std::uint32_t number) {
  unlink_quietly(lane, name_of(number));
  slots_.erase(find(number));
}

void SlotWriter::use(std::uint32_t number, std::uint64_t sequence) {
  const auto slot = find(number);
  if (slot == slots_.end())
    throw std::system_error(ENOENT, std::generic_category(), "the lane was put aside meanwhile");
  slot->sequence = sequence;
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
    find(number)->capacity = 0;
    if (ftruncate(file.get(), 0) != 0) unlink_quietly(lane, name_of(number));  // either tells the reader
    throw;
  }
}

std::uint64_t SlotWriter::bytes() const {
  std::uint64_t total = 0;
  for (const Slot& slot : slots_) total += slot.sequence == 0 ? 0 : slot.capacity;
  return total;
}

std::uint64_t SlotWriter::free_bytes() const {
  std::uint64_t total = 0;
  for (const Slot& slot : slots_) total += is_free(slot) ? slot.capacity : 0;
  return total;
}

void SlotWriter::tidy(int lane, bool also_new) {
  std::erase_if(slots_, [&](Slot& slot) {
    if (!is_free(slot)) return false;
    const bool goes = also_new || slot.is_idle;
    slot.is_idle = true;
    if (goes) unlink_quietly(lane, name_of(slot.number));
    return goes;
  });
  if (slots_.empty()) sealed_.trim(0);
}

void SlotWriter::trim(int lane, std::uint64_t room) {
  std::vector<core::KnownSlot> free;
  for (const Slot& slot : slots_) {
    if (is_free(slot)) free.push_back({slot.number, slot.capacity, true});
  }
  for (const std::uint32_t number : core::excess(std::move(free), room)) remove(lane, number);
}

}  // namespace speed::fs
