#include "fs/lane/lane_reader.hpp"

#include <unistd.h>

#include <algorithm>

#include "core/counters.hpp"
#include "fs/registry/claim.hpp"
#include "speed/error.hpp"

namespace speed::fs {

using wire::Refusal;

namespace {

constexpr std::size_t chunk_bytes = 64 << 10;
constexpr std::size_t large_bytes = 32 << 10;  // to copy less costs less than to hand it over
constexpr std::size_t kept_bytes = 4 << 20;
constexpr std::size_t slice_bytes = 4 << 20;   // of one envelope, read in one turn
constexpr std::uint64_t read_bytes = 4 << 20;  // passed at once without an envelope, at most
constexpr std::uint64_t lazy_bytes = 1 << 20;
constexpr std::uint64_t sample_bytes = 1 << 20;

bool is_in_order(wire::EnvelopeType type) {
  return type == wire::EnvelopeType::message || type == wire::EnvelopeType::event;
}

// What there is now, in one call: of a regular file a short read means its end.
std::size_t read_now(int fd, std::span<std::byte> data, std::uint64_t offset) {
  while (true) {
    const ssize_t count = pread(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) throw_errno("pread");
  }
}

bool has_damage(const core::Scan& scan) { return std::ranges::any_of(scan.items, &core::Item::is_damage); }

std::string lower(std::string_view code) {
  std::string text(code);
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

std::string_view name_of(core::SequenceVerdict verdict) {
  switch (verdict) {
    case core::SequenceVerdict::gap: return core::counters::gaps;
    case core::SequenceVerdict::duplicate: return core::counters::duplicates;
    case core::SequenceVerdict::old_generation: return core::counters::rejected_old_generation;
    default: return "";
  }
}

std::unique_ptr<Openings> openings_of(const Surroundings& around, const std::string& source, const LaneFiles& files) {
  if (around.identity == nullptr) return nullptr;
  const std::uint32_t life = around.ephemeral ? around.generation : 0;
  const wire::BoundLink link{wire::node_id(source), wire::node_id(around.target), 0, life};
  return std::make_unique<Openings>(*around.identity, around.keyring, files, link);
}

}  // namespace

LaneReader::LaneReader(const Surroundings& around, const std::string& source)
    : source_(source),
      generation_(around.generation),
      is_remote_(around.remote),
      quarantine_(around.quarantine),
      buffer_(around.buffer),
      buffers_(around.buffers),
      is_live_(around.is_live),
      opener_(around.keyring, wire::node_id(source), wire::node_id(around.target),
              around.ephemeral ? around.generation : 0),
      decoder_(wire::node_id(source), wire::node_id(around.target), opener_),
      files_(wire::lane_dir(around.root, around.target, source),
             around.keyring.lane_keys(wire::node_id(source), wire::node_id(around.target)), around.quarantine),
      openings_(openings_of(around, source, files_)),
      listing_(files_.list()),
      progress_({}, 0) {
  if (openings_ != nullptr) opener_.find_bound(*openings_);
  const std::optional<wire::Cursor> before = take_over(around);
  read_deliveries();
  if (!is_published_) {
    if (before && before->clean) files_.rewrite_unclean(*before);
    return;
  }
  for (const std::uint32_t generation : listing_.cursors) {
    if (generation < generation_) files_.remove(wire::cursor_name(generation));
  }
}

// --- where a former process stopped (L-15) ---

std::optional<wire::Cursor> LaneReader::recover(const Surroundings& around) {
  suspect_all_ = false;
  suspect_until_ = {};
  again_.clear();
  std::optional<wire::Cursor> found = newest_cursor();
  sealed_ = is_again_ && found && found->receiver_generation == generation_ && found->sealed;
  wire::Cursor cursor = found.value_or(wire::Cursor{});
  if (!found) {
    cursor.position = {forgotten_up_to(around.root, source_, around.keyring) + 1, 0, 0};
    cursor.clean = true;
  }
  position_ = cursor.position;
  link_ = core::LinkReceiver(cursor.last_sequence);
  progress_ = core::Progress(position_, cursor.last_sequence);
  for (const wire::Unfinished& entry : cursor.unfinished) {
    progress_.redispatched(entry);
    again_.push_back(entry);
  }
  if (!cursor.clean || suspect_all_) {
    suspect_until_ = lane_end();
    // A cursor of this very generation: the lane failed and is opened again, with any number in the program's hands.
    // No request for a generation was begun by an earlier one.
    lost_track_ = is_again_ && (suspect_all_ || cursor.unfinished.size() >= wire::limits::max_unfinished);
    suspect_all_ = suspect_all_ || cursor.receiver_generation == generation_ ||
                   cursor.unfinished.size() >= wire::limits::max_unfinished;
  }
  return found;
}

std::optional<wire::Cursor> LaneReader::newest_cursor() {
  for (const std::uint32_t generation : listing_.cursors) {
    if (generation == generation_ && !is_again_) continue;
    if (auto cursor = files_.read_cursor(generation)) return cursor;
    count(core::counters::cursors_damaged);
    suspect_all_ = true;
  }
  return std::nullopt;
}

wire::Position LaneReader::lane_end() const {
  if (listing_.files.empty()) return position_;
  const wire::LaneFileName last = listing_.files.back();
  return {last.generation, last.number, files_.size_of(last)};
}

// Redelivers the next envelope that a former process had begun and not finished.
void LaneReader::read_again(std::vector<Received>& received) {
  while (!again_.empty() && received.empty() && !awaited_) {
    const wire::Unfinished entry = again_.front();
    again_.pop_front();
    if (find_again(entry, received)) continue;
    progress_.finish(entry.sequence);
    ++dirty_;
    count(core::counters::redeliveries_lost);
  }
}

bool LaneReader::find_again(const wire::Unfinished& entry, std::vector<Received>& received) {
  core::Scan scan;
  try {
    const Fd fd = files_.open_file(entry.start.file());
    for (std::size_t want = chunk_bytes;; want = scan.needed) {
      const std::size_t length = fill(fd.get(), entry.start.offset, want);
      scan = decoder_.scan({{buffer_.data(), length}, entry.start.offset, entry.start.generation}, 1);
      if (!scan.items.empty() || scan.needed <= want) break;
    }
  } catch (const std::system_error& error) {
    if (is_gone(error)) return false;
    throw;
  }
  if (scan.items.empty() || scan.items[0].is_damage() || scan.items[0].header.sequence != entry.sequence) return false;
  if (is_slotted(scan.items[0].header)) {
    await(scan.items[0], {scan.items[0].header, {}, true, false}, entry.start, true);
    return true;
  }
  progress_.found_again(entry.sequence, scan.items[0].end);
  received.push_back({scan.items[0].header, scan.items[0].payload, true, false});
  hand_over(received);
  return true;
}

// --- reading ---

bool LaneReader::read(std::vector<Received>& received, std::size_t most, TimePoint now, bool scan) {
  received.clear();
  if (!again_.empty() && !awaited_) {
    read_again(received);
    if (!received.empty()) return true;
  }
  if (scan) {
    look(now);
    if (files_.has_new_key()) {
      rewrite();
    } else if (dirty_ > 0) {
      commit();
    }
  }
  std::uint64_t taken = 0;
  while (received.empty() && !awaited_ && taken < read_bytes) {
    if (!file_ && !open_next(now)) return false;
    const bool final = successor().has_value();
    const Passed passed = read_window(received, most, now, scan, final);
    taken += passed.cost;
    if (passed.at_end && final) {
      leave_file();
    } else if (passed.at_end && !successor()) {
      return false;
    }
  }
  return received.empty() && awaited_ ? read_slot(received, now, scan) : true;
}

bool LaneReader::grew() const {
  if (awaited_) return awaited_->slot.has_changed();
  if (!file_) return false;
  const std::uint64_t end = end_of(file_.get());
  return end > seen_ && end >= position_.offset + needed_;
}

// `last`: the file had a successor before this read, so no byte follows what it brings (L-17).
LaneReader::Passed LaneReader::read_window(std::vector<Received>& received, std::size_t most, TimePoint now, bool scan,
                                           bool last) {
  const wire::Position from = position_;
  if (scan && !last && is_as_it_was()) return {0, true};
  const std::size_t want = window_bytes(scan || last);
  const std::optional<std::size_t> filled = fill_window(want, last);
  if (!filled) return {slice_bytes, false};
  const std::size_t length = *filled;
  seen_ = from.offset + length;
  look_if_due(now);
  if (length == 0) return {0, true};
  const std::size_t visible = before_fence(length);
  const bool ended = (last && length < want) || visible < length;
  const core::Window window{{buffer_.data(), visible}, from.offset, from.generation, ended, scan};
  const core::Scan scanned = decoder_.scan(window, most);
  take(scanned, ended);
  suspected_ = scan && scanned.consumed == 0 ? seen_ : 0;
  suspected_fences_ = fences_.size();
  accept(scanned, from, received);
  hand_over(received);
  if (scanned.more) {
    // A search after damage may have authenticated the whole window many times over.
    return {has_damage(scanned) ? std::max(scanned.consumed, chunk_bytes) : scanned.consumed, false};
  }
  if (scanned.consumed > 0 || ended) return {scanned.consumed, length < want || ended};
  // An incomplete envelope fills the window. More of it may be there, and in a file that nobody writes to any more
  // the next window is all that is left.
  return {0, !last && file_bytes(file_.get()) - from.offset < scanned.needed};
}

// Whether a large envelope that was incomplete at the last periodic look, and seemed to tell no lie (L-16), has neither
// grown since nor met a fence.
bool LaneReader::is_as_it_was() const {
  return suspected_ > 0 && needed_ > chunk_bytes && suspected_ == file_bytes(file_.get()) &&
         suspected_fences_ == fences_.size();
}

// How much to read: a chunk, or all of a large envelope once it is there; 0: wait for it.
std::size_t LaneReader::window_bytes(bool whole) const {
  if (needed_ <= chunk_bytes) return chunk_bytes;
  const std::uint64_t size = file_bytes(file_.get());
  const auto available = static_cast<std::size_t>(size - std::min(size, position_.offset));
  if (available < needed_ && !whole) return 0;
  return std::max(chunk_bytes, std::min(needed_, available + 1));
}

// Null if the next turn goes on.
std::optional<std::size_t> LaneReader::fill_window(std::size_t want, bool last) {
  const int fd = file_.get();
  const std::uint64_t offset = position_.offset;
  if (want > slice_bytes && file_bytes(fd) >= offset + want) {
    if (!gather(want)) return std::nullopt;
    buffers_.give(std::exchange(buffer_, std::move(giant_)));
    return buffer_.size();
  }
  buffers_.give(std::move(giant_));
  // A torn rest is dropped for good: that nothing follows it is asked twice.
  if (last) return fill(fd, offset, want);
  make_room(want);
  return read_now(fd, buffer_.extend(want), offset);
}

// Reads a giant slice by slice, so that other lanes have their turns between; true once it is whole.
bool LaneReader::gather(std::size_t want) {
  if (giant_.size() == 0) giant_ = buffers_.take(want);
  giant_.reserve(want);
  const std::size_t size = std::min(slice_bytes, want - giant_.size());
  const std::span<std::byte> room(giant_.data() + giant_.size(), size);
  const std::size_t length = read_at(file_.get(), room, position_.offset + giant_.size());
  giant_.extend(length);
  return length < size || giant_.size() == want;
}

std::size_t LaneReader::fill(int fd, std::uint64_t offset, std::size_t want) {
  make_room(want);
  return read_at(fd, buffer_.extend(want), offset);
}

void LaneReader::make_room(std::size_t want) {
  buffer_.clear();
  if (want <= chunk_bytes || buffer_.capacity() >= want) return;
  buffers_.give(std::move(buffer_));
  buffer_ = buffers_.take(want);
}

// Moves the position past what was settled, and puts damage aside while its bytes are at hand.
void LaneReader::take(const core::Scan& scan, bool ended) {
  needed_ = scan.needed;
  const std::uint64_t base = position_.offset;
  position_.offset += scan.consumed;
  for (const core::Item& item : scan.items) {
    if (item.is_damage()) put_aside(item, base, ended && &item == &scan.items.back());
  }
}

// A torn tail was never acknowledged: it is dropped and counted (L-17).
void LaneReader::put_aside(const core::Item& damage, std::uint64_t base, bool torn) {
  if (torn && damage.refusal == Refusal::truncated) {
    count(core::counters::torn_tails);
    return;
  }
  const std::string_view code = code_of(damage.refusal);
  count(core::counters::damaged(lower(code)));
  const auto from = static_cast<std::size_t>(damage.start - base);
  const auto size = static_cast<std::size_t>(std::min(damage.end - damage.start, sample_bytes));
  quarantine_.put(buffer_.view().subspan(from, size), source_ + " " + wire::lane_file_name(position_.file()), code,
                  damage.start);
}

// Applies the sequence rules and hands out what they let through (L-12).
void LaneReader::accept(const core::Scan& scan, const wire::Position& from, std::vector<Received>& received) {
  for (const core::Item& item : scan.items) {
    if (item.is_damage()) continue;
    const core::SequenceVerdict verdict = link_.judge(item.header.sequence);
    if (verdict != core::SequenceVerdict::next) count(name_of(verdict));
    if (verdict > core::SequenceVerdict::gap) continue;
    const wire::Position start{from.generation, from.number, item.start};
    Received one{item.header, item.payload, may_be_repeated(item.header, start), is_doubtful(start)};
    if (is_slotted(item.header)) {
      await(item, one, start, false);
      continue;
    }
    progress_.dispatched(item.header.sequence, start, item.end);
    received.push_back(std::move(one));
  }
  if (scan.consumed > 0 && progress_.tail() != position_) {
    progress_.skip_to(position_);
    ++dirty_;
  }
}

// A large envelope stays where it was read, for as long as anybody needs it; so does all that came with a giant.
void LaneReader::hand_over(std::vector<Received>& received) {
  const bool is_large = received.size() == 1 && received.front().payload.size() >= large_bytes;
  if (!is_large && buffer_.capacity() <= kept_bytes) return;
  const auto owner = buffers_.share(std::move(buffer_));
  for (Received& one : received) one.owner = owner;
}

// L-15: what existed when a former process died may have been handled by it. Messages and events of one sender are
// handled one at a time: only the first of each can be repeated. A payload in segments may have let messages behind it
// pass while it was put together (G-14): segments do not count.
bool LaneReader::may_be_repeated(const wire::Header& header, const wire::Position& start) {
  if (start >= suspect_until_) return false;
  if (suspect_all_ || !is_in_order(header.type) || (header.flags & wire::flag_segment) != 0) return true;
  return !std::exchange(seen_types_[static_cast<std::size_t>(header.type)], true);
}

// --- finishing ---

void LaneReader::finish(std::uint64_t sequence, bool lazy) {
  const std::uint64_t bytes = progress_.finish(sequence);
  if (deliveries_.erase(sequence) != 0 && deliveries_.empty()) files_.remove(wire::deliveries_name(generation_));
  const bool was_in_slot = in_slots_.erase(sequence) != 0;  // its sender may be out of slots
  if (lazy && !was_in_slot) {
    dirty_ += bytes;
    if (dirty_ < lazy_bytes) return;
  }
  commit();
}

LaneReader::Begun LaneReader::begin(std::uint64_t sequence, bool may_run_again) {
  if (may_run_again) {
    progress_.begin(sequence);
  } else {
    in_slots_.erase(sequence);
    progress_.finish(sequence);
  }
  const bool written = commit();
  if (written && !files_.is_replaced()) return Begun::written;
  const bool is_replaced = is_published_ && (written || !files_.is_writable(generation_));
  return is_replaced ? Begun::replaced : Begun::unwritten;
}

wire::Cursor LaneReader::cursor(bool clean) const {
  wire::Cursor cursor = progress_.cursor(generation_, clean);
  cursor.sealed = sealed_;
  return cursor;
}

// Writes the cursor, then removes files that nothing needs any more (L-14, L-17). False: it could not be written.
bool LaneReader::commit() {
  const wire::Cursor cursor = this->cursor();
  const bool written = write_cursor(cursor);
  if (written) remove_passed_slots(cursor);
  if (listing_.files.empty() || listing_.files.front() >= cursor.position.file()) return written;
  if (!written && unfinished() > 0) return false;
  // Without space for a cursor only this frees some; the next start begins at what is left.
  remove_passed(cursor);
  return written || write_cursor(cursor);
}

// Leaves nothing under a key that will be retired (W-20).
void LaneReader::rewrite() {
  if (!deliveries_.empty()) write_deliveries();
  commit();
}

// A failure is counted and tried again by the next scan: until then a crash redelivers.
bool LaneReader::write_cursor(const wire::Cursor& cursor) {
  try {
    if (!is_published_) {
      publish(cursor);
      return true;
    }
    files_.write_cursor(cursor);
  } catch (const LeaseLostError&) {
    return false;
  } catch (const std::system_error&) {
    count(core::counters::commits_failed);
    dirty_ = std::max<std::uint64_t>(1, dirty_);
    return false;
  }
  committed_generation_ = cursor.position.generation;
  dirty_ = 0;
  return true;
}

void LaneReader::remove_passed(const wire::Cursor& cursor) {
  std::erase_if(listing_.files, [&](const wire::LaneFileName& file) {
    const auto lies_here = [&](const wire::Unfinished& entry) { return entry.start.file() == file; };
    if (file >= cursor.position.file() || std::ranges::any_of(cursor.unfinished, lies_here)) return false;
    files_.remove(wire::lane_file_name(file));
    return true;
  });
  remove_openings(cursor.position.generation);
}

// What opened older generations, once none of their files is left (I-5).
void LaneReader::remove_openings(std::uint32_t generation) {
  std::erase_if(listing_.openings, [&](const wire::OpeningName& opening) {
    const auto is_of_it = [&](const wire::LaneFileName& file) { return file.generation == opening.generation; };
    if (opening.generation >= generation || std::ranges::any_of(listing_.files, is_of_it)) return false;
    files_.remove(wire::opening_name(opening));
    return true;
  });
}

void LaneReader::rest() {
  if (dirty_ > 0) commit();
  file_.close();
  if (awaited_) awaited_->slot.rest();
  files_.rest();
}

// A payload that is waited for is in nobody's hands.
void LaneReader::close_cleanly() {
  const std::size_t awaited = awaited_ ? 1 : 0;
  write_cursor(cursor(unfinished() == awaited));
}

}  // namespace speed::fs
