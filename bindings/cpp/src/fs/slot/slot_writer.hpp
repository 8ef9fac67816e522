// A sender's slots of one lane: files that large payloads are written into again and again (L-29).
// Threads: not thread-safe; the link's lock guards it.
#pragma once

#include <vector>

#include "core/slots.hpp"
#include "fs/files.hpp"
#include "wire/envelope/cursor.hpp"
#include "wire/envelope/slot.hpp"
#include "wire/value/buffer.hpp"

namespace speed::fs {

class SlotWriter {
 public:
  explicit SlotWriter(std::uint32_t generation) : generation_(generation) {}

  // Slots that an envelope before the cursor named are free again.
  void commit(const wire::Cursor& cursor);
  // A free slot that is long enough for the pieces of a payload, its space reserved; 0: all are in use. It stays open
  // until it was written. `room`: what the window leaves for all free slots with this one. std::system_error where the
  // filesystem refuses.
  std::uint32_t take(int lane, const wire::SlotPieces& pieces, std::uint64_t room);
  // An envelope that names the slot is in the lane. std::system_error if that is another lane by now.
  void use(std::uint32_t number, std::uint64_t sequence);
  // Writes the pieces in their order; `durable`: they survive a power cut then. std::system_error: the payload is lost,
  // and its reader will see that.
  void write(int lane, std::uint32_t number, wire::SlotPieces& pieces, ByteView payload, bool durable);

  bool has_any() const { return !slots_.empty(); }
  std::uint64_t made() const { return made_; }  // files, so far: their directory has to be flushed
  std::uint64_t bytes() const;  // of the files that are in use
  std::uint64_t free_bytes() const;  // of those that are free
  // Removes the free ones that were not used since the last time, or all that are free.
  void tidy(int lane, bool also_new);
  void trim(int lane, std::uint64_t room);  // removes free ones until they take no more than that
  void forget() { slots_.clear(); }  // another directory stands in the lane's place

 private:
  struct Slot {
    std::uint32_t number = 0;
    std::uint64_t capacity = 0;  // bytes of the file
    std::uint64_t sequence = 0;  // of the envelope that names it; 0: it is free
    bool is_idle = false;
  };

  std::vector<core::KnownSlot> known() const;
  std::vector<Slot>::iterator find(std::uint32_t number);
  bool is_free(const Slot& slot) const;  // and was not taken just now
  bool open(int lane, std::uint32_t number, std::vector<std::uint32_t>& foreign);
  std::uint64_t resized(std::uint64_t bytes);
  void remove(int lane, std::uint32_t number);
  std::string name_of(std::uint32_t number) const { return wire::slot_name({generation_, number}); }

  std::uint32_t generation_;
  std::uint64_t made_ = 0;
  std::vector<Slot> slots_;
  Fd file_;  // of the slot that was taken
  std::uint32_t taken_ = 0;
  wire::Buffer sealed_;
};

}  // namespace speed::fs
