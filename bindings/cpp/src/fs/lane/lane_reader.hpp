// The receiver's end of a lane: reading, checking, committing (L-10 to L-19).
// Every byte is read into private memory first, so that nothing can change after it was verified.
// Threads: not thread-safe; the lane's lock guards it.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "core/lane_decoder.hpp"
#include "core/progress.hpp"
#include "fs/lane/openings.hpp"
#include "fs/slot/slot_reader.hpp"
#include "wire/time.hpp"
#include "wire/value/buffer.hpp"

namespace speed::fs {

// One authentic envelope. The payload is valid until the next `read` of any lane of the node, or as long as its owner
// lives; the sequence finishes it.
struct Received {
  wire::Header header;
  ByteView payload;
  bool redelivered = false;
  bool doubtful = false;  // whether a former process began it is not known: its cursor was lost, or too short to say
  std::shared_ptr<const void> owner = nullptr;  // of the payload, where it outlives the next read: of what is large
};

// The payload, beyond the next read.
inline wire::KeptBytes kept(const Received& received) {
  return received.owner == nullptr ? wire::copy_of(received.payload)
                                   : wire::KeptBytes{received.payload, received.owner};
}

// What a lane reader needs from its inbox, which outlives it.
struct Surroundings {
  std::string root;
  std::string target;
  std::uint32_t generation;
  const wire::Keyring& keyring;
  Quarantine& quarantine;
  bool ephemeral;        // the node says that its name will not come back
  bool remote;           // the filesystem is another host's: what others do may be seen late
  wire::Buffer& buffer;  // one for all lanes of a node: fresh memory would page-fault at each read
  wire::Buffers& buffers;  // for what is large, which is kept where it was read
  // Whether a node has a live entry of a generation.
  const std::function<bool(const std::string& name, std::uint32_t generation)>& is_live;
  const IdentitySource* identity = nullptr;  // null: links to the node are not bound
};

class LaneReader {
 public:
  // Takes over where a former process stopped (L-15). LeaseLostError if a newer process reads this lane.
  LaneReader(const Surroundings& around, const std::string& source);

  // Fills `received` with envelopes of one piece of the lane, at most `most`; true if more may wait.
  // `scan` marks the periodic look at everything. std::system_error if the filesystem
  // fails; what was not returned is read again.
  bool read(std::vector<Received>& received, std::size_t most, TimePoint now, bool scan);

  // Of the identity that sealed with this key; empty for none (I-5).
  std::string fingerprint(const wire::KeyId& id) { return openings_ == nullptr ? "" : openings_->fingerprint(id); }

  bool grew() const;  // whether the file at hand goes on behind what was read

  // Marks an envelope as done and commits, unless `lazy`: then with the next commit or scan.
  void finish(std::uint64_t sequence, bool lazy);
  enum class Begun { written, unwritten, replaced };  // `replaced`: a successor reads this lane, and nothing begins
  // Commits that a request is begun, before its service is. One that may run again is listed until it is finished, any
  // other is done with.
  Begun begin(std::uint64_t sequence, bool may_run_again);
  // Keeps for callers what was committed when this process opened the lane, before a request for another generation is
  // finished; false if that could not be written (L-31).
  bool keep_start();
  bool commit();

  // How often a message that came again was begun before (L-25), and that it is begun once more.
  std::uint32_t deliveries(std::uint64_t sequence) const;
  void begin_again(std::uint64_t sequence, std::uint32_t count);

  void rest();  // commits what is not yet, and holds nothing open until the next use
  void close_cleanly();  // commits; says so if nothing is in anybody's hands

  std::size_t unfinished() const { return progress_.unfinished(); }
  bool is_full() const { return progress_.is_full(); }  // more is unfinished than a lane may have in hand (L-19)

  // What was dropped or strange, by reason.
  const std::map<std::string, std::uint64_t>& counts() const { return counts_; }

 private:
  // A payload in a slot that is not wholly there yet: what follows waits behind it.
  struct Awaited {
    Received envelope;
    wire::Position start;
    std::uint64_t end;  // of the envelope, in its file
    SlotReader slot;
  };

  struct Passed {
    std::uint64_t cost = 0;
    bool at_end = false;
  };

  std::optional<wire::Cursor> take_over(const Surroundings& around);
  std::optional<wire::Cursor> recover(const Surroundings& around);
  void seal_predecessors();
  bool can_seal();
  bool has_unsealed() const;
  void check_newest() const;
  void keep_nothing();
  std::uint64_t count_of(const std::string& what) const;
  void publish(wire::Cursor cursor);
  wire::Cursor cursor(bool clean = false) const;
  std::optional<wire::Cursor> newest_cursor();
  wire::Position lane_end() const;
  void read_again(std::vector<Received>& received);
  bool find_again(const wire::Unfinished& entry, std::vector<Received>& received);

  Passed read_window(std::vector<Received>& received, std::size_t most, TimePoint now, bool scan, bool last);
  bool is_as_it_was() const;
  std::size_t window_bytes(bool whole) const;
  std::size_t fill(int fd, std::uint64_t offset, std::size_t want);
  void make_room(std::size_t want);
  std::optional<std::size_t> fill_window(std::size_t want, bool last);
  bool gather(std::size_t want);
  void take(const core::Scan& scan, bool ended);
  void put_aside(const core::Item& damage, std::uint64_t base, bool torn);
  void accept(const core::Scan& scan, const wire::Position& from, std::vector<Received>& received);
  void hand_over(std::vector<Received>& received);
  void await(const core::Item& item, const Received& envelope, const wire::Position& start, bool again);
  void refuse_head(const core::Item& item, const wire::Position& start);
  bool is_slotted(const wire::Header& header) const { return (header.flags & wire::flag_slotted) != 0; }
  bool read_slot(std::vector<Received>& received, TimePoint now, bool scan);
  SlotReader::State read_pieces();
  bool is_followed(const Awaited& awaited, bool by_its_own_life) const;
  void hand_out(Awaited& awaited, std::vector<Received>& received);
  void give_up(const Awaited& awaited, bool is_altered);
  void remove_passed_slots(const wire::Cursor& cursor);
  bool may_be_repeated(const wire::Header& header, const wire::Position& start);
  bool is_doubtful(const wire::Position& start) const { return lost_track_ && start < suspect_until_; }

  void look_if_due(TimePoint now);
  void look(TimePoint now);
  void read_fences();
  std::size_t before_fence(std::size_t length);
  std::optional<wire::LaneFileName> successor() const;
  std::optional<wire::LaneFileName> first_from(wire::LaneFileName file);
  void leave_file();
  bool open_next(TimePoint now);
  bool write_cursor(const wire::Cursor& cursor);
  void rewrite();
  void read_deliveries();
  void write_deliveries();
  void remove_passed(const wire::Cursor& cursor);
  void remove_openings(std::uint32_t generation);
  void count(std::string_view what) { ++counts_[std::string(what)]; }

  std::string source_;
  std::uint32_t generation_;
  bool is_remote_;
  bool is_again_ = false;  // this process opened the lane before
  bool is_published_ = false;  // its first cursor is in place
  bool sealed_ = false;  // the mark of its cursors
  bool has_start_ = false;
  wire::Cursor first_;  // as this process published it
  Quarantine& quarantine_;
  wire::Buffer& buffer_;
  wire::Buffers& buffers_;
  const std::function<bool(const std::string&, std::uint32_t)>& is_live_;
  std::optional<Awaited> awaited_;
  std::set<std::uint64_t> in_slots_;  // unfinished envelopes whose slots are needed until they are finished
  wire::Buffer giant_;  // what was read so far of the envelope at the position
  wire::LinkOpener opener_;
  core::LaneDecoder decoder_;
  LaneFiles files_;
  std::unique_ptr<Openings> openings_;  // of bound links; null without an identity
  Listing listing_;
  std::map<std::string, std::uint64_t> counts_;
  std::deque<wire::Unfinished> again_;  // begun and not finished by a former process
  wire::Position suspect_until_;  // what lies before it may have been handled by a former process
  bool suspect_all_ = false;
  bool lost_track_ = false;  // what was begun behind the cursor's position is not known
  std::array<bool, 9> seen_types_{};
  wire::Position position_;
  core::LinkReceiver link_;
  core::Progress progress_;
  Fd file_;
  std::uint64_t seen_ = 0;  // end of what was read of it
  std::size_t needed_ = 0;  // bytes that the incomplete envelope at the position claims
  std::uint64_t suspected_ = 0;  // end of the file when an incomplete envelope was looked through for a lie
  std::size_t suspected_fences_ = 0;  // that were known then
  wire::Deliveries deliveries_;
  std::vector<wire::Fence> fences_;
  std::optional<wire::LaneFileName> fenced_;
  TimePoint look_by_ = TimePoint::min();
  std::uint64_t dirty_ = 0;  // bytes finished and not committed
  std::uint32_t committed_generation_ = 0;  // of the sender, at the committed position: a crash leads back there
};

}  // namespace speed::fs
