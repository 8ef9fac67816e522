// Streams of a node: their channels, and which envelope is for which (S-28, S-29, S-33).
// Threads: all methods may be called from any thread; `arrive` and `end` never block.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "core/pending_calls.hpp"
#include "core/stream.hpp"
#include "speed/stream.hpp"
#include "wire/mutex.hpp"
#include "wire/value/stream.hpp"

namespace speed::engine {

inline constexpr Duration stream_write_timeout = 30s;  // for room in a full inbox, before the stream fails

class Channel final : public StreamChannel {
 public:
  using Write = std::function<void(ByteView payload, bool may_wait)>;

  Channel(std::string id, const StreamOffer& offer, core::StreamWindow window, core::StreamCredit credit)
      : id_(std::move(id)), offer_(offer), window_(window), credit_(credit) {}

  // How it sends, while `owner` lives.
  void bind(std::weak_ptr<void> owner, Write write, std::function<void()> withdraw);

  // --- for the holder of the reader's role ---
  void arrive(const wire::StreamPart& part, ByteView payload) SPEED_EXCLUDES(lock_);
  void end(core::Outcome outcome) SPEED_EXCLUDES(lock_);

  const std::string& request_id() const noexcept override { return id_; }
  const StreamOffer& offer() const noexcept override { return offer_; }
  Taken take(Seconds timeout) override SPEED_EXCLUDES(lock_);
  void process(std::uint64_t items, std::uint64_t bytes) override SPEED_EXCLUDES(lock_);
  void open() override SPEED_EXCLUDES(lock_);
  Reserved reserve(std::uint64_t bytes, Seconds timeout) override SPEED_EXCLUDES(lock_);
  void write(ByteView payload) override { send(payload, true); }
  void report(const StreamProgress& progress) override SPEED_EXCLUDES(lock_);
  void close() override SPEED_EXCLUDES(lock_);
  std::string broken() const override SPEED_EXCLUDES(lock_);
  Value outcome() override SPEED_EXCLUDES(lock_);
  void withdraw() override;

 private:
  void take_in(const wire::StreamPart& part, ByteView payload) SPEED_REQUIRES(lock_);
  Taken look() SPEED_REQUIRES(lock_);
  Reserved look_for(std::uint64_t bytes) SPEED_REQUIRES(lock_);
  void send(ByteView payload, bool may_wait) const;

  const std::string id_;
  const StreamOffer offer_;
  std::weak_ptr<void> owner_;
  Write write_;
  std::function<void()> withdraw_;
  mutable Mutex lock_;
  Condition changed_;
  core::StreamWindow window_ SPEED_GUARDED_BY(lock_);
  core::StreamCredit credit_ SPEED_GUARDED_BY(lock_);
  core::ProgressRate rate_ SPEED_GUARDED_BY(lock_);
  std::deque<Taken> arrived_ SPEED_GUARDED_BY(lock_);
  std::optional<StreamProgress> progress_ SPEED_GUARDED_BY(lock_);
  std::string broken_ SPEED_GUARDED_BY(lock_);
  core::Outcome outcome_ SPEED_GUARDED_BY(lock_);
  bool is_last_ SPEED_GUARDED_BY(lock_) = false;    // the caller's items are over
  bool is_over_ SPEED_GUARDED_BY(lock_) = false;    // the call has ended
  bool is_closed_ SPEED_GUARDED_BY(lock_) = false;  // nobody waits here
};

// The channels of one side by node and request id.
class Streams {
 public:
  void add(const std::string& node, std::shared_ptr<Channel> channel) SPEED_EXCLUDES(lock_);
  void remove(const std::string& node, const std::string& id) SPEED_EXCLUDES(lock_);
  // A STREAM envelope; false if nobody waits for it. WireError for one that cannot be read.
  bool arrive(const std::string& node, ByteView payload) SPEED_EXCLUDES(lock_);

 private:
  Mutex lock_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Channel>> channels_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::engine
