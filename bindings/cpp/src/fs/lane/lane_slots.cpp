// The part of a lane's reader that waits for payloads in slots (L-30).
#include <algorithm>
#include <thread>

#include "core/counters.hpp"
#include "fs/clock.hpp"
#include "fs/lane/lane_reader.hpp"

namespace speed::fs {

namespace {

constexpr std::size_t turn_bytes = 4 << 20;  // read in one turn
constexpr Duration patience = 200us;  // for a piece; then the lane is left, and read when the bell rings

}  // namespace

void LaneReader::await(const core::Item& item, const Received& envelope, const wire::Position& start, bool again) {
  const std::uint64_t sequence = item.header.sequence;
  const std::optional<wire::SlotHead> head = wire::decode_slot_head(item.payload);
  const std::uint64_t in_slot = head ? head->payload_bytes : 0;
  if (again) {
    progress_.found_again(sequence, item.end, in_slot);
  } else {
    progress_.dispatched(sequence, start, item.end, in_slot);
  }
  if (!head) return refuse_head(item, start);
  awaited_.emplace(Awaited{envelope, start, item.end, SlotReader(start.generation, *head, buffers_)});
}

// What goes to quarantine is the envelope as it lies in the lane: opened it would hold a key.
void LaneReader::refuse_head(const core::Item& item, const wire::Position& start) {
  Bytes sealed(static_cast<std::size_t>(item.end - item.start));
  read_at(files_.open_file(start.file()).get(), sealed, item.start);
  count(core::counters::damaged_bad_slot);
  quarantine_.put(sealed, source_ + " " + wire::lane_file_name(start.file()), "BAD_SLOT", item.start);
  finish(item.header.sequence, true);
}

// True if the lane goes on; false: the next piece is waited for.
bool LaneReader::read_slot(std::vector<Received>& received, TimePoint now, bool scan) {
  Awaited& awaited = *awaited_;
  look_if_due(now);
  // Asked before the piece is looked at once more: what is there afterwards was written meanwhile.
  const bool is_sure = is_followed(awaited, true);
  const bool is_written =
      is_sure || is_followed(awaited, false) || (scan && !is_live_(source_, awaited.start.generation));
  const SlotReader::State state = is_written ? awaited.slot.read(files_, turn_bytes, true) : read_pieces();
  if (state == SlotReader::State::unread) return true;
  if (state == SlotReader::State::missing && !is_written) return false;
  if (state == SlotReader::State::whole) {
    hand_out(awaited, received);
  } else {
    if (state == SlotReader::State::refused) {
      count(core::counters::slots_refused);
      files_.put_aside(awaited.slot.name(), "UNTRUSTED_FILE");
    }
    give_up(awaited, state == SlotReader::State::missing && is_sure);
  }
  awaited_.reset();
  return true;
}

SlotReader::State LaneReader::read_pieces() {
  SlotReader& slot = awaited_->slot;
  while (true) {
    const std::size_t before = slot.pieces_read();
    const TimePoint until = monotonic_now() + patience;
    SlotReader::State state = slot.read(files_, turn_bytes);
    while (state == SlotReader::State::missing && slot.pieces_read() == before && monotonic_now() < until) {
      std::this_thread::yield();
      state = slot.read(files_, turn_bytes);
    }
    if (state != SlotReader::State::missing || slot.pieces_read() == before) return state;
  }
}

// A sender goes on only behind a payload that it wrote; a later life of it need not have.
bool LaneReader::is_followed(const Awaited& awaited, bool by_its_own_life) const {
  const wire::LaneFileName file = awaited.start.file();
  const auto follows = [&](const wire::LaneFileName& other) {
    return other > file && (!by_its_own_life || other.generation == file.generation);
  };
  return follows(position_.file()) || std::ranges::any_of(listing_.files, follows) ||
         files_.size_of(file) > awaited.end;
}

void LaneReader::hand_out(Awaited& awaited, std::vector<Received>& received) {
  wire::Buffer payload = awaited.slot.take();
  Received one = awaited.envelope;
  one.header.flags = static_cast<std::uint16_t>(one.header.flags & ~wire::flag_slotted);
  one.header.payload_bytes = payload.size();
  one.payload = payload.view();
  one.owner = buffers_.share(std::move(payload));
  in_slots_.insert(one.header.sequence);
  received.push_back(std::move(one));
}

// Altered, or never written by a sender that is gone: a torn rest, which was never acknowledged.
void LaneReader::give_up(const Awaited& awaited, bool is_altered) {
  count(is_altered ? core::counters::damaged_bad_slot : core::counters::torn_slots);
  if (is_altered) {
    quarantine_.put(awaited.slot.sealed(), source_ + " " + awaited.slot.name(), "BAD_SLOT", awaited.slot.offset());
  }
  finish(awaited.envelope.header.sequence, true);
}

void LaneReader::remove_passed_slots(const wire::Cursor& cursor) {
  std::erase_if(listing_.slots, [&](const wire::LaneFileName& slot) {
    const auto is_of_it = [&](const wire::Unfinished& entry) { return entry.start.generation == slot.generation; };
    if (slot.generation >= cursor.position.generation || std::ranges::any_of(cursor.unfinished, is_of_it)) return false;
    files_.remove(wire::slot_name(slot));
    return true;
  });
}

}  // namespace speed::fs
