// A payload put together from enough of its segments, and proven by its hash (G-3, G-10, G-11).
#pragma once

#include "speed/segment.hpp"

namespace speed::segment {

// The segments held of one payload, by slot; recovered ones are written beside them.
class Shards {
 public:
  Shards() = default;
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;
  virtual ~Shards() = default;

  virtual unsigned data_count() const = 0;
  virtual unsigned parity_count() const = 0;
  virtual std::size_t segment_size() const = 0;
  virtual bool has(unsigned slot) const = 0;
  virtual std::size_t size_of(unsigned slot) const = 0;
  // Holds until the next call with the same `room`, which it may fill.
  virtual ByteView read(unsigned slot, std::size_t begin, std::size_t end, Bytes& room) const = 0;
  virtual void write(unsigned slot, std::size_t begin, ByteView data) = 0;
};

// Recovers the data segments that are missing, and proves the payload; returns its size in bytes. Bounded memory.
// WireError SEGMENT_HASH when the segments held are not those of a payload with this hash.
std::size_t rebuild(Shards& shards, const Hash& hash);

}  // namespace speed::segment
