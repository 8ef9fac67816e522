// The part of LaneReader that knows fences and goes from file to file (L-17, L-18).
#include <algorithm>

#include "core/counters.hpp"
#include "fs/lane/lane_reader.hpp"

namespace speed::fs {

namespace {

constexpr Duration look_period = 100ms;  // how old the knowledge of fences may be when bytes are accepted
constexpr std::uint64_t max_file_bytes =
    wire::limits::lane_window_bytes + wire::limits::max_payload_bytes + wire::envelope_overhead;
constexpr std::uint32_t most_tried = wire::limits::max_lane_segments;  // numbers in a row: no more are outstanding

}  // namespace

// After bytes were read and before they are accepted: is there a fence or a newer file? (L-18)
void LaneReader::look_if_due(TimePoint now) {
  if (now > look_by_ || files_.changed()) look(now);
}

// Lists the lane again: fences, newer files, foreign files.
void LaneReader::look(TimePoint now) {
  look_by_ = now + look_period;
  listing_ = files_.list();
  for (const std::string& filename : listing_.foreign) {
    count(core::counters::foreign_files);
    files_.put_aside(filename, "NO_LANE_FILE");
  }
  if (!listing_.fences.empty() || !fences_.empty()) read_fences();
}

// Knows all fences ahead of the position; removes those that no crash leads back before.
void LaneReader::read_fences() {
  const std::vector<wire::Fence> known = std::exchange(fences_, {});
  for (const std::uint32_t generation : listing_.fences) {
    if (generation <= position_.generation) {
      if (generation <= committed_generation_) files_.remove(wire::fence_name(generation));
      continue;
    }
    const auto before = std::ranges::find(known, generation, &wire::Fence::new_generation);
    const std::optional<wire::Fence> fence = before != known.end() ? *before : files_.read_fence(generation);
    if (fence) {
      fences_.push_back(*fence);
    } else {
      count(core::counters::fences_damaged);
    }
  }
}

// How many of `length` bytes at the position were written before the sender lost its name.
std::size_t LaneReader::before_fence(std::size_t length) {
  std::size_t visible = length;
  const wire::LaneFileName here = position_.file();
  for (const wire::Fence& fence : fences_) {
    if (fence.new_generation <= here.generation || here < fence.old) continue;
    const bool is_last = here == fence.old && fence.size > position_.offset;
    const std::uint64_t allowed = is_last ? fence.size - position_.offset : 0;
    visible = static_cast<std::size_t>(std::min<std::uint64_t>(visible, allowed));
  }
  if (visible < length && fenced_ != here) {
    fenced_ = here;
    count(core::counters::rejected_behind_fence);
  }
  return visible;
}

std::optional<wire::LaneFileName> LaneReader::successor() const {
  const auto next = std::ranges::upper_bound(listing_.files, position_.file());
  return next == listing_.files.end() ? std::nullopt : std::optional(*next);
}

// The first file from this one on, to go there. A listing that was long, or cut at its bound, may lack some that lie
// there, so each number that is passed over is tried first; of an older generation only the next can be known.
std::optional<wire::LaneFileName> LaneReader::first_from(wire::LaneFileName file) {
  const auto listed = std::ranges::lower_bound(listing_.files, file);
  if (listed == listing_.files.end()) return std::nullopt;
  const std::uint32_t gap = listed->generation == file.generation ? listed->number - file.number : 1;
  for (std::uint32_t tried = 0; tried < std::min(gap, most_tried); ++tried, ++file.number) {
    if (files_.has_file(file)) return *listing_.files.insert(listed, file);
  }
  return *listed;
}

// Goes to the next file: all of this one was read, and nothing is written to it any more (L-17).
void LaneReader::leave_file() {
  file_.close();
  if (const auto next = first_from({position_.generation, position_.number + 1})) {
    position_ = {next->generation, next->number, 0};
    progress_.skip_to(position_);
  }
  commit();
}

// Opens the file at the position, or the next one there is.
bool LaneReader::open_next(TimePoint now) {
  std::optional<wire::LaneFileName> file = first_from(position_.file());
  if (!file) {
    look_if_due(now);
    file = first_from(position_.file());
    if (!file) return false;
  }
  try {
    Fd fd = files_.open_file(*file);
    if (file_bytes(fd.get()) > max_file_bytes) throw UntrustedFileError("larger than any lane file");
    file_ = std::move(fd);
  } catch (const std::system_error& error) {
    if (!is_gone(error)) throw;
    if (error.code().value() != ENOENT) {
      count(core::counters::segments_refused);
      files_.put_aside(wire::lane_file_name(*file), "UNTRUSTED_FILE");
    }
    look(now);
    return false;
  }
  if (*file != position_.file()) {
    position_ = {file->generation, file->number, 0};
    progress_.skip_to(position_);
  }
  needed_ = 0;
  seen_ = 0;
  suspected_ = 0;
  return true;
}

}  // namespace speed::fs
