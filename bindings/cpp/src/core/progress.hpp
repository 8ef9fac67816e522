// Which envelopes of a lane are dispatched and which finished, as the cursor records it (L-14, L-15).
// The position is the end of the last finished envelope, with the unfinished ones before it listed: one slow request
// neither holds back the lane nor makes a crash repeat what was finished after it.
// Threads: not thread-safe; the lane's lock guards it.
#pragma once

#include <deque>

#include "wire/envelope/cursor.hpp"

namespace speed::core {

class Progress {
 public:
  Progress(const wire::Position& start, std::uint64_t last_sequence)
      : tail_(start), tail_sequence_(last_sequence), done_(start), done_sequence_(last_sequence) {}

  static constexpr std::size_t max_in_hand =
      wire::limits::max_in_hand;  // unfinished envelopes with which a lane stands still (L-19)

  // Takes over an envelope that the predecessor's cursor lists as unfinished; its end is known once it is read.
  void redispatched(const wire::Unfinished& entry);
  void found_again(std::uint64_t sequence, std::uint64_t end, std::uint64_t in_slot = 0);

  // The envelope from `start` to the offset `end` was handed out; sequences rise. So many bytes more lie in a slot.
  void dispatched(std::uint64_t sequence, const wire::Position& start, std::uint64_t end, std::uint64_t in_slot = 0);

  // The bytes before `position` hold nothing more to dispatch (damage, duplicates).
  void skip_to(const wire::Position& position) { tail_ = position; }

  // Marks one envelope as done; returns its bytes, 0 when it was already.
  std::uint64_t finish(std::uint64_t sequence);
  // Marks one as begun: the position passes it, and it is listed as such until it is done.
  void begin(std::uint64_t sequence);

  // The cursor to commit; a 65th unfinished envelope moves the position back to its start.
  wire::Cursor cursor(std::uint32_t receiver_generation, bool clean = false) const;

  bool holds(std::uint64_t sequence) const;  // it was handed out and is not finished
  std::size_t unfinished() const { return pending_.size(); }
  // So much is unfinished, by number or by bytes, that nothing more is read (L-19).
  bool is_full() const { return pending_.size() >= max_in_hand || bytes_ > wire::limits::max_unfinished_bytes; }
  const wire::Position& tail() const { return tail_; }

 private:
  struct Pending {
    std::uint64_t sequence = 0;
    wire::Position start;
    std::uint64_t end = 0;
    std::uint64_t previous = 0;  // sequence of the envelope before it
    std::uint64_t in_slot = 0;   // bytes of its payload
    bool begun = false;

    std::uint64_t bytes() const { return end - start.offset + in_slot; }
  };

  std::deque<Pending>::iterator find(std::uint64_t sequence);
  void pass(const Pending& one);

  std::deque<Pending> pending_;  // their sequences rise; one taken from within moves the shorter side
  std::uint64_t bytes_ = 0;      // of those
  wire::Position tail_;          // end of everything dispatched or skipped
  std::uint64_t tail_sequence_;
  wire::Position done_;  // end of the last envelope that is finished or begun
  std::uint64_t done_sequence_;
};

}  // namespace speed::core
