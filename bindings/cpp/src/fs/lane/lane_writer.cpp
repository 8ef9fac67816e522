#include "fs/lane/lane_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/trust.hpp"
#include "fs/clock.hpp"
#include "fs/registry/root.hpp"
#include "speed/error.hpp"

namespace speed::fs {

namespace {

constexpr Duration verify_period = 250ms;  // how long the path is believed to lead to the lane that is held (L-2)

const char* fix_for(int error) {
  switch (error) {
    case ENOSPC: return "the filesystem is full: free space, or let the receiver catch up";
    case EDQUOT: return "the disk quota is used up";
    case EFBIG: return "the process's file size limit is reached (ulimit -f)";
    case EMFILE: return "this process has too many open files (ulimit -n)";
    case EACCES: return "the receiver's inbox belongs to another user";
    case ENOENT: return "the receiver has no inbox here: was it ever started on this root?";
    default: return "see `speed root doctor`";
  }
}

std::system_error last_error() { return {errno, std::generic_category()}; }

}  // namespace

LaneWriter::LaneWriter(const std::string& root, const std::string& source, const std::string& target,
                       std::uint32_t generation, wire::LaneKeys lane_keys, const LaneSettings& settings)
    : root_(root),
      target_(target),
      inbox_(wire::inbox_dir(root, target)),
      path_(wire::lane_dir(root, target, source)),
      generation_(generation),
      keys_(std::move(lane_keys)),
      settings_(settings),
      slots_(generation) {}

void LaneWriter::append(ByteView envelopes, const std::vector<std::size_t>& ends, const wire::LinkOpening* opening) {
  if (!lane_ || monotonic_now() - verified_ > verify_period || status_of(lane_.get()).st_nlink == 0) verify();
  if (opening != nullptr && left_ != opening->filename) leave(*opening);
  if (settings_.publish_whole) return publish(envelopes, ends.size());
  trim_slots(envelopes.size());
  if (!file_) open_file();
  std::size_t written = 0;
  while (written < envelopes.size()) {
    const ssize_t count = ::write(file_.get(), envelopes.data() + written, envelopes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const std::system_error error = last_error();
      grown(written);
      // Never cut off: the reader may have read torn bytes already. A successor also lets the receiver remove this
      // file, which may be what frees the space that is missing (L-5).
      if (file_size_ > 0) leave_file();
      fail(error, static_cast<std::size_t>(std::ranges::upper_bound(ends, written) - ends.begin()));
    }
    written += static_cast<std::size_t>(count);
  }
  grown(written);
  if (file_size_ >= settings_.segment_bytes) leave_file();
}

// On disk before the envelopes that it opens, where they are to be.
void LaneWriter::leave(const wire::LinkOpening& opening) {
  try {
    replace_file(lane_.get(), opening.filename, opening.data, settings_.durable);
  } catch (const std::system_error& error) {
    fail(error, 0);
  }
  left_ = opening.filename;
}

// Free ones keep no window from what is about to be written (L-29).
void LaneWriter::trim_slots(std::uint64_t bytes) {
  if (!slots_.has_any()) return;
  const std::uint64_t room = room_for_free(bytes);
  if (slots_.free_bytes() > room) slots_.trim(lane_.get(), room);
}

// What the window leaves for slots that are free, beside so many bytes more.
std::uint64_t LaneWriter::room_for_free(std::uint64_t bytes) const {
  return settings_.window_bytes - std::min(settings_.window_bytes, outstanding_.bytes() + slots_.bytes() + bytes);
}

void LaneWriter::grown(std::uint64_t written) {
  file_size_ += written;
  outstanding_.add({generation_, number_}, written);
}

// Creates the next free file of this generation (L-2).
void LaneWriter::open_file() {
  while (!file_) {
    try {
      file_ = create_file(lane_.get(), wire::lane_file_name({generation_, number_ + 1}), true);
    } catch (const std::system_error& error) {
      if (error.code().value() != EEXIST) {
        close();
        fail(error, 0);
      }
    }
    ++number_;
  }
  file_size_ = 0;
  created_ = true;
}

// Makes one complete file appear at once (L-23).
void LaneWriter::publish(ByteView batch, std::size_t envelopes) {
  const std::string name = wire::lane_file_name({generation_, number_ + 1});
  const std::string temporary = wire::temporary_name(name);
  try {
    unlink_quietly(lane_.get(), temporary);
    const Fd fd = create_file(lane_.get(), temporary, false);
    write_all(fd.get(), batch);
    if (settings_.durable && fsync(fd.get()) != 0) throw_errno("fsync");
    put_in_place(lane_.get(), temporary, name);
  } catch (const UnclearRenameError& error) {
    unlink_quietly(lane_.get(), temporary);
    ++number_;  // neither its number nor the counters may be used again: it may be there
    fail(error, envelopes);
  } catch (const std::system_error& error) {
    unlink_quietly(lane_.get(), temporary);
    fail(error, 0);
  }
  ++number_;
  created_ = true;
  outstanding_.add({generation_, number_}, batch.size());
}

bool LaneWriter::has_room(std::uint64_t size) {
  if (!lane_) verify();
  if (fits(size)) return true;
  verify();
  try {
    look_at_cursor();
  } catch (const std::system_error& error) {
    fail(error, 0);
  }
  if (outstanding_.bytes() + slots_.bytes() == 0 || fits(size)) return true;
  // Only behind a successor does the reader pass what was torn (L-17), which may be what takes the room.
  if (!file_ && !settings_.publish_whole && outstanding_.files() < wire::limits::max_lane_segments) {
    open_file();
  }
  return false;
}

bool LaneWriter::fits(std::uint64_t size) const {
  return outstanding_.bytes() + slots_.bytes() + size <= settings_.window_bytes &&
         outstanding_.files() < wire::limits::max_lane_segments;
}

// The one that was read last is there nearly always; a list of the directory costs several times as much.
void LaneWriter::look_at_cursor() {
  auto cursor = read_cursor(lane_.get(), receiver_generation_, keys_);
  if (!cursor) cursor = newest_cursor(lane_.get(), keys_);
  if (!cursor) return;
  receiver_generation_ = cursor->receiver_generation;
  outstanding_.commit(cursor->position);
  slots_.commit(*cursor);
}

std::uint32_t LaneWriter::take_slot(const wire::SlotPieces& pieces) {
  if (settings_.publish_whole) return 0;
  if (!lane_ || monotonic_now() - verified_ > verify_period) verify();
  try {
    if (slots_.bytes() > 0) look_at_cursor();
    const std::uint64_t made_before = slots_.made();
    const std::uint64_t head_bytes = wire::limits::slot_head_bytes + wire::envelope_overhead;
    const std::uint32_t number = slots_.take(lane_.get(), pieces, room_for_free(head_bytes));
    created_ = created_ || slots_.made() > made_before;
    return number;
  } catch (const std::system_error& error) {
    fail(error, 0);
  }
}

void LaneWriter::write_slot(std::uint32_t number, std::uint64_t sequence, wire::SlotPieces& pieces, ByteView payload) {
  try {
    slots_.use(number, sequence);
    slots_.write(lane_.get(), number, pieces, payload, settings_.durable);
  } catch (const std::system_error& error) {
    fail(error, 0);
  }
}

void LaneWriter::tidy_slots() { remove_slots(false); }

bool LaneWriter::give_slots_back() {
  const std::uint64_t before = slots_.bytes() + slots_.free_bytes();
  remove_slots(true);
  return slots_.bytes() + slots_.free_bytes() < before;
}

// A lane that is not there any more took its slots along; it is not made again for that.
void LaneWriter::remove_slots(bool all) {
  if (!slots_.has_any()) return;
  const bool rests = !lane_;
  struct stat status{};
  if (rests && (lstat(path_.c_str(), &status) != 0 || status.st_ino != lane_inode_)) return slots_.forget();
  try {
    if (rests) open_lane();
    look_at_cursor();
    slots_.tidy(lane_.get(), all);
  } catch (const std::system_error&) {
    // The next time tries again.
  }
  if (rests) close();
}

Flush::Flush(Fd file, Fd lane, std::string inbox)
    : file_(std::move(file)), lane_(std::move(lane)), inbox_(std::move(inbox)) {}

void Flush::run() const {
  if (file_ && fdatasync(file_.get()) != 0) throw_errno("fdatasync");
  if (!lane_) return;
  if (fsync(lane_.get()) != 0) throw_errno("fsync");
  // Each holds the name of the one before: the inbox, its node's directory, the root.
  const std::filesystem::path inbox(inbox_);
  for (const auto& place : {inbox, inbox.parent_path(), inbox.parent_path().parent_path()}) sync_directory(place);
}

Flush LaneWriter::begin_flush() {
  Flush flush(duplicate(file_), created_ ? duplicate(lane_) : Fd(), inbox_);
  created_ = false;
  return flush;
}

void LaneWriter::flush_failed(std::error_code error) {
  created_ = true;
  ++failed_flushes_;
  flush_error_ = error;
}

void LaneWriter::refuse_flush() const {
  throw StorageError("what was sent to '" + target_ + "' may not survive a power cut: " + flush_error_.message() +
                     "; " + fix_for(flush_error_.value()));
}

// Makes or finds the lane directory; begins anew when it is another one than before (L-2).
void LaneWriter::verify() {
  verified_ = monotonic_now();
  struct stat status{};
  if (lane_ && lstat(path_.c_str(), &status) == 0 && status.st_ino == lane_inode_) return;
  close();
  try {
    open_lane();
  } catch (const std::system_error& error) {
    close();
    fail(error, 0);
  }
}

void LaneWriter::open_lane() {
  make_directory(path_);
  created_ = true;  // that it is there may be the answer to a request that was repeated
  Fd lane = open_directory(path_);
  const struct stat status = status_of(lane.get());
  if (status.st_uid != geteuid() && !core::is_shared(status.st_mode))
    throw std::system_error(EACCES, std::generic_category(), "foreign lane");
  lane_ = std::move(lane);
  left_.clear();
  if (lane_inode_ != status.st_ino) slots_.forget();
  lane_inode_ = status.st_ino;
  outstanding_ = {};
  for (const LaneFileSize& one : lane_files_in(lane_.get())) {
    outstanding_.add(one.name, one.bytes);
    if (one.name.generation == generation_) number_ = std::max(number_, one.name.number);
  }
}

// A flush that fails here is told to whoever appended to the file and waits for its flush.
void LaneWriter::leave_file() {
  const Fd left = std::move(file_);
  if (settings_.durable && fdatasync(left.get()) != 0) flush_failed(last_error().code());
}

void LaneWriter::close() {
  if (file_) leave_file();
  if (settings_.durable && created_ && lane_) sync_created();
  lane_.close();
}

void LaneWriter::end() {
  remove_slots(true);
  close();
}

// Whoever appended, and waits for a flush, finds no descriptor any more.
void LaneWriter::sync_created() {
  try {
    begin_flush().run();
  } catch (const std::system_error& error) {
    flush_failed(error.code());
  }
}

void LaneWriter::fail(const std::system_error& error, std::size_t envelopes_written) const {
  const std::string gone = error.code().value() == ENOENT ? registry_gone(root_) : std::string();
  if (!gone.empty()) throw StorageError(gone, envelopes_written);
  const std::string message = "cannot write into the inbox of '" + target_ + "': " + error.code().message() + "; " +
                              fix_for(error.code().value());
  const bool lacks_space = error.code().value() == ENOSPC || error.code().value() == EDQUOT;
  if (lacks_space) throw NoSpaceError(message, envelopes_written);
  throw StorageError(message, envelopes_written);
}

}  // namespace speed::fs
