// Sequence rules of one link on the receiving side: replay, gaps, generations (L-12, L-13).
// Threads: not thread-safe; the lane's lock guards it.
#pragma once

#include <vector>

#include "wire/envelope/envelope.hpp"
#include "wire/envelope/seal.hpp"

namespace speed::core {

enum class SequenceVerdict { next, gap, duplicate, old_generation };  // the first two are accepted

class LinkReceiver {
 public:
  explicit LinkReceiver(std::uint64_t last_sequence = 0) : last_(last_sequence) {}

  // What a sequence means after the ones before it; remembered if it is accepted.
  SequenceVerdict judge(std::uint64_t sequence) {
    const std::uint64_t last = last_;
    const bool same = wire::generation_of(sequence) == wire::generation_of(last);
    if (sequence <= last) return same ? SequenceVerdict::duplicate : SequenceVerdict::old_generation;
    last_ = sequence;
    // Each generation starts at 1; what an older one wrote last cannot be known.
    const std::uint64_t expected = same ? wire::counter_of(last) + 1 : 1;
    return wire::counter_of(sequence) == expected ? SequenceVerdict::next : SequenceVerdict::gap;
  }

  std::uint64_t last_sequence() const { return last_; }

 private:
  std::uint64_t last_;
};

// Bytes of a lane -> authenticated envelopes, sans-IO; finds the next one after damage (L-11, L-16).
// Threads: not thread-safe; the lane's lock guards it.

// One settled run of bytes, `start` to `end` from the start of the file: an authenticated envelope, or damage.
struct Item {
  wire::Refusal refusal = wire::Refusal::ok;  // not ok: damage, and why; truncated for a torn tail
  wire::Header header;
  ByteView payload;  // in the window
  std::uint64_t start = 0;
  std::uint64_t end = 0;

  bool is_damage() const { return refusal != wire::Refusal::ok; }
};

struct Scan {
  std::vector<Item> items;
  std::size_t consumed = 0;  // settled bytes
  std::size_t needed = 0;    // what the next envelope claims to need from there on; 0: unknown
  bool more = false;         // a limit ended the scan
};

// A run of bytes of one lane file; what is authentic among them is opened where it lies.
struct Window {
  std::span<std::byte> bytes;
  std::uint64_t base = 0;  // where they lie in the file
  std::uint32_t generation = 0;
  bool final = false;       // no byte will follow
  bool suspicious = false;  // an incomplete envelope is checked for a lying length (L-16)
};

// Keeps no bytes, so every split of a lane decodes equally.
class LaneDecoder {
 public:
  LaneDecoder(const wire::NodeId& source, const wire::NodeId& target, wire::LinkOpener& opener);

  Scan scan(const Window& window, std::size_t limit);  // at most `limit` items

 private:
  // What lies at a place: an envelope of `needed` bytes, one that needs as many in all, or none.
  struct Look {
    enum class Kind { whole, incomplete, refused } kind = Kind::refused;
    std::size_t needed = 0;
    Item item;
  };
  Look look(const Window& window, std::size_t at);  // opens what is authentic
  Look peek(const Window& window, std::size_t at);  // leaves it as it is
  Look inspect(const Window& window, std::size_t at) const;  // by its headers alone
  std::size_t end_of_damage(const Window& window, std::size_t at);
  wire::Refusal misplaced(const wire::Header& header, std::uint32_t generation) const;

  wire::NodeId source_;
  wire::NodeId target_;
  wire::Block<2 * wire::limits::node_id_bytes> pattern_;
  wire::LinkOpener& opener_;
};

}  // namespace speed::core
