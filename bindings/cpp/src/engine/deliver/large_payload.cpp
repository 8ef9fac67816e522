#include "engine/deliver/large_payload.hpp"

#include <algorithm>

namespace speed::engine {

namespace {

wire::MessageFront front_of(const segment::Source& message) {
  Bytes room;
  const std::size_t most = wire::limits::max_segmented_head_bytes;
  return wire::read_front(message.read(0, std::min(message.size(), most), room), message.size());
}

}  // namespace

ByteView StoredPayload::read(std::size_t begin, std::size_t end, Bytes& room) const {
  const std::size_t segment_size = shards_->segment_size();
  begin += begin_;
  end += begin_;
  if (begin == end) return {};
  if (begin / segment_size == (end - 1) / segment_size) {
    const std::size_t start = begin / segment_size * segment_size;
    return shards_->read(static_cast<unsigned>(begin / segment_size), begin - start, end - start, room);
  }
  Bytes joined;
  joined.reserve(end - begin);
  while (begin < end) {
    const std::size_t start = begin / segment_size * segment_size;
    const std::size_t stop = std::min(end, start + segment_size);
    wire::append(joined, shards_->read(static_cast<unsigned>(begin / segment_size), begin - start, stop - start, room));
    begin = stop;
  }
  room = std::move(joined);
  return room;
}

ByteView PrefixedSource::read(std::size_t begin, std::size_t end, Bytes& room) const {
  const std::size_t edge = front_.size();
  if (begin >= edge) return rest_.read(begin - edge, end - edge, room);
  if (end <= edge) return front_.subspan(begin, end - begin);
  Bytes joined(front_.begin() + static_cast<std::ptrdiff_t>(begin), front_.end());
  wire::append(joined, rest_.read(0, end - edge, room));
  room = std::move(joined);
  return room;
}

Bytes all_of(const segment::Source& source) {
  Bytes room;
  const ByteView all = source.read(0, source.size(), room);
  return {all.begin(), all.end()};
}

LargeMessage::LargeMessage(const std::shared_ptr<fs::StoredShards>& shards, std::size_t size)
    : whole_(shards, 0, size), front_(front_of(whole_)), payload_(shards, front_.start, size) {}

ByteView LargeMessage::payload_bytes() const {
  std::call_once(payload_read_, [this] { payload_bytes_ = all_of(payload_); });
  return payload_bytes_;
}

ByteView LargeMessage::bytes() const {
  std::call_once(whole_read_, [this] { bytes_ = all_of(whole_); });
  return bytes_;
}

}  // namespace speed::engine
