// One lane directory as its receiver sees it: listing, files, fences, the own cursor (L-10).
// Threads: not thread-safe; the lane's lock guards it.
#pragma once

#include <string>

#include "fs/lane/lane_state.hpp"
#include "fs/lane/quarantine.hpp"

namespace speed::fs {

// What lies in a lane directory: files in order, fences, cursors and starts by generation, the newest first.
struct Listing {
  std::vector<wire::LaneFileName> files;
  std::vector<std::uint32_t> fences;
  std::vector<std::uint32_t> cursors;
  std::vector<std::uint32_t> starts;
  std::vector<std::uint32_t> deliveries;
  std::vector<wire::LaneFileName> slots;
  std::vector<wire::OpeningName> openings;
  std::vector<std::string> foreign;
};

// When the files of a directory were changed last, in ns.
std::int64_t modified_ns(const struct stat& status);
// Whether every later change must show another time: the clock that stamps files has passed this one (L-18).
bool is_settled(std::int64_t modified);

// Held open, so that replacing its path changes nothing. At rest it holds nothing open; what is done then opens it again:
// std::system_error if another directory stands in its place by then.
class LaneFiles {
 public:
  LaneFiles(const std::string& path, wire::LaneKeys lane_keys, Quarantine& quarantine);

  Listing list();
  bool changed() const;  // whether a file came or went since the last listing, as far as time stamps tell

  Fd open_file(wire::LaneFileName file) const;
  Fd open_slot(wire::LaneFileName slot) const;
  std::uint64_t size_of(wire::LaneFileName file) const;  // 0 if there is none
  bool has_file(wire::LaneFileName file) const;  // it can be opened now, whatever was listed
  void remove(const std::string& filename);  // if it is there
  void put_aside(const std::string& filename, std::string_view reason);

  Bytes read_opening(const wire::OpeningName& name) const;  // of a bound link; std::system_error
  std::optional<wire::Fence> read_fence(std::uint32_t generation) const;  // null: missing or not authentic
  std::optional<wire::Deliveries> read_deliveries(std::uint32_t generation) const;  // likewise
  void write_deliveries(std::uint32_t generation, const wire::Deliveries& deliveries) const;
  std::optional<wire::Cursor> read_cursor(std::uint32_t generation) const;  // likewise
  void write_cursor(const wire::Cursor& cursor);  // commits in place: one write, whole for every process (L-15)
  bool has_cursor() const { return has_cursor_; }  // this process published it
  bool is_replaced() const;  // a successor sealed the cursor that was written last (L-31)
  // Kept for callers; empty without a cursor.
  void write_start(std::uint32_t generation, const std::optional<wire::Cursor>& cursor) const;

  // Takes the write bits of an earlier cursor away; false where that is another user's.
  bool seal(std::uint32_t generation) const;
  bool is_writable(std::uint32_t generation) const;  // a cursor that is there has its owner's write bit
  bool has_new_key() const { return keys_.front() != cursor_key_; }  // since the cursor was written (W-20)
  // The same bytes again where they lie, which needs no space, but for the mark of a clean end (L-15).
  void rewrite_unclean(wire::Cursor cursor) const;

  void rest() noexcept;  // holds nothing open until the next use

 private:
  int directory() const;
  bool is_it(const struct stat& status) const;  // the directory that is held, or was before it was let go of
  [[noreturn]] static void refuse_replaced();

  std::string path_;
  mutable Fd directory_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  Owners owners_;
  wire::LaneKeys keys_;
  wire::Key cursor_key_;
  wire::MacKey cursor_mac_;
  Quarantine& quarantine_;
  Fd cursor_;
  bool has_cursor_ = false;
  std::int64_t listed_mtime_ = -1;  // ns
};

}  // namespace speed::fs
