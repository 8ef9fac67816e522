// The items of a stream as values: who reads them, and who writes them (S-29, S-33). Credit, order and bounds are the channel's.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <thread>

#include "engine/context.hpp"
#include "speed/stream.hpp"
#include "wire/mutex.hpp"
#include "wire/value/buffer.hpp"

namespace speed::engine {

// Why a service gets and sends nothing any more.
std::exception_ptr ended(const StreamChannel& channel);

// The items that arrive on a channel. Credit is given for those that were read.
// Threads: one at a time.
class ItemReader {
 public:
  explicit ItemReader(StreamChannel& channel) : channel_(channel) {}

  // Null where the next item is in `item`; else what was found instead. WireError: what came cannot be read.
  std::optional<StreamChannel::Taken> next(std::optional<Value>& item, Seconds timeout);

 private:
  StreamChannel& channel_;
  Array batch_;
  std::size_t at_ = 0;
  std::uint64_t items_ = 0, bytes_ = 0;  // of the batch, until they were processed
};

// Sends what one producer gives, several items an envelope. A thread of its own sends what was given since it sent last, so
// that none is held back while the producer thinks; a producer that is quicker sends full envelopes itself.
// Threads: one at a time; `stop` from any.
class ItemWriter {
 public:
  ItemWriter(StreamChannel& channel, std::shared_ptr<const fs::ForkMark> fork_mark)
      : channel_(channel), fork_mark_(std::move(fork_mark)) {}
  ItemWriter(const ItemWriter&) = delete;
  ItemWriter& operator=(const ItemWriter&) = delete;
  ~ItemWriter() { stop(); }

  // Waits for credit; false: nobody takes it any more. UnserialisableError, PayloadTooLargeError, or what a write failed with.
  bool put(const Value& item);
  // Waits until the other side has begun to take items; false: it never does.
  bool wait_for_begin();
  // Sends what is left, and with `last` that there is no more. Throws what kept it from being sent.
  void finish(bool last);
  void stop() noexcept;
  void check() SPEED_EXCLUDES(lock_);  // throws what a write failed with

 private:
  bool reserve(std::uint64_t bytes);
  void add(ByteView packed) SPEED_EXCLUDES(sending_, lock_);
  void flush(bool last) SPEED_EXCLUDES(sending_, lock_);
  void run();
  bool has_items() SPEED_EXCLUDES(lock_);

  StreamChannel& channel_;
  const std::shared_ptr<const fs::ForkMark> fork_mark_;
  Mutex sending_;  // held while items are taken and written, so that they keep their order
  std::uint64_t number_ SPEED_GUARDED_BY(sending_) = 0;
  Mutex lock_;
  Condition changed_;
  wire::Buffer packed_ SPEED_GUARDED_BY(lock_);
  std::uint32_t items_ SPEED_GUARDED_BY(lock_) = 0;
  bool rests_ SPEED_GUARDED_BY(lock_) = false;
  bool is_over_ SPEED_GUARDED_BY(lock_) = false;
  std::exception_ptr error_ SPEED_GUARDED_BY(lock_);
  std::thread thread_;
};

}  // namespace speed::engine
