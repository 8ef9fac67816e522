// A message that lies in the store (G-18), and bytes with a payload behind them.
#pragma once

#include <memory>
#include <mutex>

#include "fs/store/segment_store.hpp"
#include "speed/large.hpp"
#include "wire/message/message_parts.hpp"

namespace speed::engine {

// Bytes of a payload that was put together.
class StoredPayload : public segment::Source {
 public:
  StoredPayload(std::shared_ptr<fs::StoredShards> shards, std::size_t begin, std::size_t end)
      : shards_(std::move(shards)), begin_(begin), size_(end - begin) {}

  std::size_t size() const override { return size_; }
  ByteView read(std::size_t begin, std::size_t end, Bytes& room) const override;

 private:
  const std::shared_ptr<fs::StoredShards> shards_;
  const std::size_t begin_;
  const std::size_t size_;
};

// Some bytes with a payload behind them.
class PrefixedSource : public segment::Source {
 public:
  PrefixedSource(ByteView front, const segment::Source& rest) : front_(front), rest_(rest) {}

  std::size_t size() const override { return front_.size() + rest_.size(); }
  ByteView read(std::size_t begin, std::size_t end, Bytes& room) const override;

 private:
  ByteView front_;
  const segment::Source& rest_;
};

// The whole of a source, in memory.
Bytes all_of(const segment::Source& source);

// A received message whose payload is read from where it lies.
class LargeMessage {
 public:
  // WireError BAD_MESSAGE for one whose payload is not last.
  LargeMessage(const std::shared_ptr<fs::StoredShards>& shards, std::size_t size);

  wire::MessageView take_head() { return std::move(front_.head); }  // once
  std::size_t size() const { return whole_.size(); }  // of all of it
  const segment::Source& payload() const { return payload_; }
  const segment::Source& whole() const { return whole_; }
  ByteView payload_bytes() const;  // in memory from the first call on; so is the next
  ByteView bytes() const;

 private:
  StoredPayload whole_;
  wire::MessageFront front_;
  StoredPayload payload_;
  mutable std::once_flag payload_read_;
  mutable std::once_flag whole_read_;
  mutable Bytes payload_bytes_;
  mutable Bytes bytes_;
};

using LargePtr = std::shared_ptr<LargeMessage>;

}  // namespace speed::engine
