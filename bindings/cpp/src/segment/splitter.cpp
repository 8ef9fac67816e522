// A payload cut into segments, with parity, in bounded memory (G-3 to G-5).
#include <algorithm>
#include <cmath>
#include <sstream>

#include "segment/keccak.hpp"
#include "segment/parity.hpp"
#include "speed/error.hpp"
#include "speed/segment.hpp"
#include "wire/limits.hpp"

namespace speed::segment {

namespace {

constexpr std::size_t parity_bytes = 32 << 20;  // held at a time; what exceeds it is made in further passes

// Some of the parity shards, `first` and those behind it, each `shape.segment_size` bytes of the result.
class ParityGroup {
 public:
  ParityGroup(const Shape& shape, unsigned count)
      : shape_(shape), encoder_(shape.data_count, shape.parity_count), shards_(count * shape.segment_size) {}

  ByteView shard(std::size_t at) const {
    return ByteView(shards_).subspan(at * shape_.segment_size, shape_.segment_size);
  }

  void make(const Source& payload, unsigned first, unsigned count) {
    Columns columns(shape_.data_count);
    const std::size_t most = column_width(shape_.data_count, shape_.segment_size);
    unwanted_.resize(most);
    for (std::size_t begin = 0; begin < shape_.segment_size; begin += most) {
      const std::size_t width = std::min(most, shape_.segment_size - begin);
      columns.clear();
      for (unsigned index = 0; index < shape_.data_count; ++index) load(columns, payload, index, begin, width);
      encoder_.encode(columns.views(), rows(first, count, begin), width);
    }
  }

 private:
  void load(Columns& columns, const Source& payload, unsigned index, std::size_t begin, std::size_t width) const {
    const std::size_t start = index * shape_.segment_size + begin;
    const std::size_t from = std::min(start, payload.size());
    columns.add(width, [&](Bytes& room) { return payload.read(from, std::min(start + width, payload.size()), room); });
  }

  // Where the encoder writes: all shards that are not of this group into the same room.
  std::vector<std::byte*> rows(unsigned first, unsigned count, std::size_t begin) {
    std::vector<std::byte*> rows(shape_.parity_count, unwanted_.data());
    for (unsigned at = 0; at < count; ++at) rows[first + at] = shards_.data() + at * shape_.segment_size + begin;
    return rows;
  }

  const Shape& shape_;
  Encoder encoder_;
  Bytes shards_;
  Bytes unwanted_;
};

Hash hash_of(const Source& payload) {
  Keccak state;
  hash_steps(state, 0, payload.size(),
             [&](std::size_t begin, std::size_t end, Bytes& room) { return payload.read(begin, end, room); });
  return state.digest();
}

}  // namespace

Splitter::Splitter(std::size_t segment_size, double parity_rate)
    : segment_size_(parity_rate > 0 ? segment_size / shard_unit * shard_unit : segment_size),
      parity_rate_(parity_rate) {
  if (!(parity_rate >= 0 && parity_rate <= 1)) {
    std::ostringstream text;
    text << "parity_rate " << parity_rate << " cannot be used: choose one from 0 to 1";
    throw ConfigurationError(text.str());
  }
  if (segment_size_ == 0) {
    throw ConfigurationError("segment_size " + std::to_string(segment_size) +
                             " cannot be used: choose at least 64 with parity, 1 without");
  }
}

Shape Splitter::shape(std::size_t payload_bytes) const {
  if (const std::size_t most = most_bytes(); payload_bytes > most) {
    std::ostringstream text;
    text << payload_bytes << " bytes exceed the " << most << " that fit into " << wire::limits::max_segments
         << " segments of " << segment_size_ << " bytes with a parity rate of " << parity_rate_
         << ": send less, or use larger ones";
    throw PayloadTooLargeError(text.str());
  }
  const std::size_t data_count =
      std::max<std::size_t>(1, payload_bytes / segment_size_ + (payload_bytes % segment_size_ != 0 ? 1 : 0));
  return {payload_bytes, segment_size_, static_cast<unsigned>(data_count),
          static_cast<unsigned>(parity_count(data_count))};
}

std::size_t Splitter::most_bytes() const {
  std::size_t data_count = wire::limits::max_segments;
  while (data_count + parity_count(data_count) > wire::limits::max_segments) --data_count;
  return segment_size_ * data_count;
}

std::size_t Splitter::parity_count(std::size_t data_count) const {
  return std::min(static_cast<std::size_t>(std::ceil(static_cast<double>(data_count) * parity_rate_)), data_count);
}

void Splitter::split(const Source& payload, const Visitor& each) const { cut(payload, shape(payload.size()), each); }

void cut(const Source& payload, const Shape& shape, const Splitter::Visitor& each, const std::optional<Hash>& known) {
  Segment segment{
      .hash = known ? *known : hash_of(payload), .data_count = shape.data_count, .parity_count = shape.parity_count};
  Bytes room;
  for (segment.index = 0; segment.index < shape.data_count; ++segment.index) {
    const std::size_t begin = segment.index * shape.segment_size;
    segment.payload = payload.read(begin, std::min(begin + shape.segment_size, payload.size()), room);
    each(segment);
  }
  if (shape.parity_count == 0) return;
  segment.is_parity = true;
  const std::size_t held = std::clamp<std::size_t>(parity_bytes / shape.segment_size, 1, shape.parity_count);
  const auto most = static_cast<unsigned>(held);
  ParityGroup group(shape, most);
  for (unsigned first = 0; first < shape.parity_count; first += most) {
    const unsigned count = std::min(most, shape.parity_count - first);
    group.make(payload, first, count);
    for (segment.index = first; segment.index < first + count; ++segment.index) {
      segment.payload = group.shard(segment.index - first);
      each(segment);
    }
  }
}

}  // namespace speed::segment
