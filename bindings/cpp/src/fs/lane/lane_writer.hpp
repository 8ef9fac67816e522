// The sender's end of a lane: whole envelopes appended to numbered files (L-2 to L-7, L-23).
// Threads: not thread-safe; the link's lock guards every method.
#pragma once

#include <string>
#include <system_error>

#include "fs/lane/lane_state.hpp"
#include "fs/slot/slot_writer.hpp"
#include "speed/error.hpp"
#include "wire/envelope/identity.hpp"
#include "wire/time.hpp"

namespace speed::fs {

struct LaneSettings {
  std::uint64_t window_bytes = wire::limits::lane_window_bytes;    // written and not yet committed, at most
  std::uint64_t segment_bytes = wire::limits::segment_bytes;       // from there on the next file begins
  bool publish_whole = false;                                      // each batch is one complete file (L-23)
  bool durable = false;                                            // a file is flushed before it is left (L-7)
};

// Space or quota is missing: removing files may help.
class NoSpaceError : public StorageError {
 public:
  using StorageError::StorageError;
};

// What makes all that was appended survive a power cut (L-7), on descriptors of its own: others may append while it runs.
class Flush {
 public:
  Flush(Fd file, Fd lane, std::string inbox);  // without a lane no file was created
  void run() const;  // from any thread; std::system_error when the device refuses

 private:
  Fd file_;
  Fd lane_;
  std::string inbox_;
};

class LaneWriter {
 public:
  LaneWriter(const std::string& root, const std::string& source, const std::string& target, std::uint32_t generation,
             wire::LaneKeys lane_keys, const LaneSettings& settings);

  // Writes whole envelopes; `ends` are their ends in `envelopes`, `opening` what is to be in the lane before them (I-4).
  // StorageError tells how many are in the lane for good: the caller uses the counters of the others again (L-5).
  void append(ByteView envelopes, const std::vector<std::size_t>& ends, const wire::LinkOpening* opening = nullptr);

  // Whether `size` more bytes fit the window (L-6); the receiver's cursor is read only when not.
  // An empty lane takes an envelope of any size. StorageError where that cannot be found out.
  bool has_room(std::uint64_t size);

  // The number of a slot for the payload (L-29), its space reserved; 0: it goes into the lane itself. After its envelope was
  // appended, under `sequence`, the payload is written. StorageError.
  std::uint32_t take_slot(const wire::SlotPieces& pieces);
  void write_slot(std::uint32_t number, std::uint64_t sequence, wire::SlotPieces& pieces, ByteView payload);
  void tidy_slots();  // removes those that are free and were not used since the last time
  bool give_slots_back();  // removes all that are free; whether there were any

  Flush begin_flush();
  void flush_failed(std::error_code error);
  // Flushes that failed so far: what was appended before each may be lost in a power cut. StorageError says that.
  std::uint64_t failed_flushes() const { return failed_flushes_; }
  [[noreturn]] void refuse_flush() const;

  void close();  // the next append begins a new file
  void end();  // closes for good: no slot stays that nobody reads

 private:
  bool fits(std::uint64_t size) const;
  void trim_slots(std::uint64_t bytes);
  std::uint64_t room_for_free(std::uint64_t bytes) const;
  void look_at_cursor();
  void remove_slots(bool all);
  void leave(const wire::LinkOpening& opening);
  void verify();
  void open_lane();
  void open_file();
  void leave_file();
  void sync_created();
  void publish(ByteView batch, std::size_t envelopes);
  void grown(std::uint64_t written);
  [[noreturn]] void fail(const std::system_error& error, std::size_t envelopes_written) const;

  std::string root_;
  std::string target_;
  std::string inbox_;
  std::string path_;
  std::uint32_t generation_;
  wire::LaneKeys keys_;
  LaneSettings settings_;
  Fd lane_;
  ino_t lane_inode_ = 0;
  TimePoint verified_ = {};  // when the path was last seen to lead to `lane_`
  std::string left_;  // the opening that was left since the lane was opened
  Fd file_;
  std::uint32_t number_ = 0;
  std::uint64_t file_size_ = 0;
  Outstanding outstanding_;
  SlotWriter slots_;
  std::uint32_t receiver_generation_ = 0;  // of the cursor that was read last
  bool created_ = false;  // a file came since the last flush
  std::uint64_t failed_flushes_ = 0;
  std::error_code flush_error_;
};

}  // namespace speed::fs
