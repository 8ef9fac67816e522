// Payloads in segments, with parity: what a program without a node can use as well (registry_spec/segments.md).
// Cutting needs nothing but a segment size; an Assembler puts together, in memory, what arrives in any order, and what
// is lost up to the number of parity segments. Bytes and times come in, bytes and verdicts go out.
// Threads: a Splitter keeps nothing and may be used by many; an Assembler belongs to one thread at a time.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "speed/export.hpp"
#include "speed/seconds.hpp"
#include "speed/value.hpp"

namespace speed::segment {

inline constexpr std::size_t shard_unit = 64;      // shards are whole units of so many bytes
inline constexpr std::size_t max_head_bytes = 62;  // all of a segment but its payload

using Hash = std::array<std::byte, 32>;

// Keccak-256 with the padding of the competition, as it was before SHA-3.
SPEED_EXPORT Hash keccak256(ByteView data);

// One valid segment. `data_count` and `parity_count` are the k and m of the rules; `payload` is a view of what it was
// made of.
struct Segment {
  Hash hash{};
  unsigned data_count = 0;
  unsigned parity_count = 0;
  unsigned index = 0;  // among the data segments, or among the parity segments
  bool is_parity = false;
  ByteView payload = {};
  bool is_unordered = false;  // what its sender wrote behind the payload need not wait for it

  unsigned slot() const { return is_parity ? data_count + index : index; }
  bool is_last_data() const { return !is_parity && index + 1 == data_count; }  // it may be shorter than the others
};

SPEED_EXPORT Bytes write_segment(const Segment& segment);
// A view into `data`. WireError BAD_SEGMENT names the first field that breaks a rule.
SPEED_EXPORT Segment read_segment(ByteView data);

// Where the bytes of a payload are read from. What `read` returns holds until its next call with the same `room`,
// which it may fill; it throws what its medium throws.
class SPEED_EXPORT Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;
  virtual std::size_t size() const = 0;
  virtual ByteView read(std::size_t begin, std::size_t end, Bytes& room) const = 0;
};

class SPEED_EXPORT MemorySource : public Source {
 public:
  explicit MemorySource(ByteView data) : data_(data) {}
  std::size_t size() const override { return data_.size(); }
  ByteView read(std::size_t begin, std::size_t end, Bytes&) const override { return data_.subspan(begin, end - begin); }

 private:
  ByteView data_;
};

// How a payload is cut: `data_count` parts of `segment_size` bytes, and `parity_count` shards.
struct Shape {
  std::size_t payload_bytes = 0;
  std::size_t segment_size = 0;
  unsigned data_count = 0;
  unsigned parity_count = 0;
};

class SPEED_EXPORT Splitter {
 public:
  using Visitor = std::function<void(const Segment&)>;  // its payload holds until it returns

  // `segment_size`: bytes of the payload in one segment at most. `parity_rate`: parity for each data segment, 0 for
  // none; with it, segments have the greatest multiple of 64 bytes that the size permits. ConfigurationError when the
  // size is 0, or below 64 though parity is wanted.
  explicit Splitter(std::size_t segment_size, double parity_rate = 0.125);

  // PayloadTooLargeError if its data and the parity asked for need more than 255 segments.
  Shape shape(std::size_t payload_bytes) const;
  std::size_t most_bytes() const;  // of one payload
  // Its segments, data first. A source is read twice, and once more for each 32 MiB of parity.
  void split(const Source& payload, const Visitor& each) const;
  void split(ByteView payload, const Visitor& each) const { split(MemorySource(payload), each); }

 private:
  std::size_t parity_count(std::size_t data_count) const;

  std::size_t segment_size_;
  double parity_rate_;
};

// The segments of a payload, data first, in a shape of the caller's own; `known` is its hash, if the caller has it.
SPEED_EXPORT void cut(const Source& payload, const Shape& shape, const Splitter::Visitor& each,
                      const std::optional<Hash>& known = std::nullopt);

// Bounds of what a receiver keeps; in segments.md each has its name.
struct Limits {
  std::size_t payload_bytes = 1 << 30;
  std::size_t reconstructions = 256;
  std::size_t sender_reconstructions = 16;
  std::size_t buffered_bytes = 2'281'701'376;
  std::size_t sender_buffered_bytes = 1'140'850'688;
  std::size_t completions = 65'536;
  std::size_t sender_completions = 4'096;
  Seconds idle{60};
  Seconds total{3'600};
  Seconds completion{600};
};

// Whose payload it is: sender, type of its envelopes, hash.
struct Key {
  std::string sender;
  unsigned kind = 0;
  Hash hash{};

  friend auto operator<=>(const Key&, const Key&) = default;
};

enum class Verdict { kept, duplicate, complete, done };  // what became of one segment
SPEED_EXPORT const char* name_of(Verdict verdict);

struct Outcome {
  Verdict verdict = Verdict::kept;
  std::optional<Bytes> payload = {};  // of a complete one
};

class SPEED_EXPORT Assembler {
 public:
  explicit Assembler(const Limits& limits = {});
  ~Assembler();
  Assembler(const Assembler&) = delete;
  Assembler& operator=(const Assembler&) = delete;

  // Takes one segment of `sender` at `now`, which never goes back. WireError BAD_SEGMENT, SEGMENT_CONFLICT, SEGMENT_LIMIT,
  // SEGMENT_HASH.
  Outcome receive(const std::string& sender, ByteView data, std::chrono::steady_clock::time_point now,
                  unsigned kind = 1);
  // Forgets what waited too long; returns the payloads that are lost.
  std::vector<Key> expire(std::chrono::steady_clock::time_point now);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace speed::segment
