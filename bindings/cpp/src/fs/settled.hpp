// What a caller reads of a server that is gone, or was replaced: whether its call had begun (S-21, steps 2 and 3).
// Threads: may be called from any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "fs/committed.hpp"

namespace speed::fs {

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
