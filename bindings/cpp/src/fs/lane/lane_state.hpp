// What a sender may read of a lane: its files' sizes and the receiver's cursor (L-6).
// Threads: not thread-safe; the link's lock guards it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fs/files.hpp"
#include "wire/envelope/cursor.hpp"
#include "wire/envelope/keyring.hpp"

namespace speed::fs {

inline constexpr std::size_t max_lane_files = 65536;

// Bytes written and not committed, per file.
class Outstanding {
 public:
  void add(wire::LaneFileName file, std::uint64_t size);
  // Everything before this position is committed; a position never takes back what it freed.
  void commit(const wire::Position& position);
  std::uint64_t bytes() const { return bytes_; }
  std::size_t files() const { return files_.size(); }

 private:
  struct Size {
    std::uint64_t written = 0;
    std::uint64_t freed = 0;
  };
  std::map<wire::LaneFileName, Size> files_;
  std::uint64_t bytes_ = 0;
};

struct LaneFileSize {
  wire::LaneFileName name;
  std::uint64_t bytes = 0;
};

// The files of a lane in order; links and the like are left out.
std::vector<LaneFileSize> lane_files_in(int dir_fd);

// A valid cursor of the lane, null otherwise; a torn read (it is just being rewritten) is tried again.
std::optional<wire::Cursor> read_cursor(int dir_fd, std::uint32_t generation, const std::vector<wire::Key>& keys);

// The valid cursor of the newest receiver generation.
std::optional<wire::Cursor> newest_cursor(int dir_fd, const std::vector<wire::Key>& keys);

// Fences: what a sender that lost its name writes afterwards is never accepted (L-18).

// Ends all lanes that older generations of `source` left anywhere. Called by the new owner after it won its claim and
// before its entry appears. std::system_error when a fence cannot be written.
void fence_lanes(const std::string& root, const std::string& source, std::uint32_t generation,
                 const wire::Keyring& keyring);

// Whether a receiver has yet to open a lane of `source`; one that cannot be looked into counts as such.
bool has_unopened_lanes(const std::string& root, const std::string& source, const wire::Keyring& keyring);

// The newest generation of a name that the files it left tell of; 0 for one that left nothing. For a name whose claims
// somebody removed: what it sent in a generation that was used would be taken for repeated.
std::uint32_t generation_left(const std::string& root, const std::string& name, const wire::Keyring& keyring);

// What a caller reads of a server that is gone, or was replaced: whether its call had begun (S-21, steps 2 and 3).
// Threads: may be called from any.

// The envelopes of a request that was written to one generation of its receiver.
struct WrittenRequest {
  std::uint32_t generation = 0;
  std::span<const std::uint64_t> sequences;
  std::size_t needed = 0;  // so many of them make it whole: all, without parity
};

enum class Verdict { not_begun, repeatable, may_have_run };

// What decides about the calls that were written to one generation of a node.
struct Decision {
  enum class Kind {
    cursor,   // this one
    nothing,  // no file: whoever could have begun them is over, and never opened the lane
    unknown,  // nothing decides, for now
  } kind = Kind::unknown;
  wire::Cursor cursor = {};
};

// `is_over`: the process of `generation` begins nothing more, since it is gone or left in order.
Decision deciding(const std::string& lane, std::uint32_t generation, bool is_over, const wire::LaneKeys& keys);

Verdict judge(const WrittenRequest& request, const Decision& decision);

}  // namespace speed::fs
