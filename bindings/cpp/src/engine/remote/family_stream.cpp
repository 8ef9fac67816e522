// A stream to a family: one member serves it from its beginning to its end (S-40).
#include <atomic>
#include <memory>
#include <utility>

#include "engine/remote/families.hpp"
#include "engine/remote/peer.hpp"
#include "engine/span.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"

namespace speed::engine {

namespace {

// One thread reads it and another one may write to it; whichever finds that a member began nothing asks the next one. No
// item went anywhere by then, since it had no credit.
// Threads: as StreamChannel.
class FamilyChannel final : public StreamChannel {
 public:
  FamilyChannel(Runtime& node, Walk walk, StreamRequest request)
      : node_(node.weak_from_this()),
        walk_(std::move(walk)),
        request_(std::move(request)),
        deadline_(fs::monotonic_now() + duration_of("timeout", request_.options.timeout)) {
    const MutexLock guard(turn_);
    begin(node);
  }
  FamilyChannel(const FamilyChannel&) = delete;
  FamilyChannel& operator=(const FamilyChannel&) = delete;
  ~FamilyChannel() override { release(); }

  const std::string& request_id() const noexcept override { return present()->request_id(); }
  const StreamOffer& offer() const noexcept override { return request_.offer; }
  std::string broken() const override { return present()->broken(); }
  void process(std::uint64_t items, std::uint64_t bytes) override { present()->process(items, bytes); }
  void open() override { present()->open(); }
  void write(ByteView payload) override { present()->write(payload); }
  void report(const StreamProgress& progress) override { present()->report(progress); }

  Taken take(Seconds timeout) override {
    const ChannelPtr channel = present();
    Taken taken = channel->take(timeout);
    if (taken.found == Found::over && goes_on(channel)) return {};
    return taken;
  }

  Reserved reserve(std::uint64_t bytes, Seconds timeout) override {
    const ChannelPtr channel = present();
    const Reserved reserved = channel->reserve(bytes, timeout);
    return reserved == Reserved::over && goes_on(channel) ? Reserved::nothing : reserved;
  }

  void withdraw() override {
    is_closed_ = true;
    present()->withdraw();
  }

  void close() override {
    is_closed_ = true;
    present()->close();
    release();
  }

  Value outcome() override {
    const MutexLock guard(turn_);
    if (error_ != nullptr) std::rethrow_exception(error_);
    return std::exchange(result_, Value());
  }

 private:
  using ChannelPtr = std::shared_ptr<StreamChannel>;

  ChannelPtr present() const {
    const MutexLock guard(lock_);
    return channels_.back();
  }

  // Asks the next member.
  void begin(Runtime& node) SPEED_REQUIRES(turn_) {
    while (true) {
      const std::string name = walk_.take();
      try {
        CallOptions options = request_.options;
        options.timeout = std::max(Duration::zero(), deadline_ - fs::monotonic_now());
        options.key.reset();
        ChannelPtr channel =
            peer_of(node, name)->open_stream(request_.service, request_.arguments, options, request_.offer);
        const MutexLock guard(lock_);
        channels_.push_back(std::move(channel));
        counted_ = name;
        name_ = name;
        break;
      } catch (...) {
        node.families.ended(name);
        walk_.failed(std::current_exception(), name);
      }
    }
    if (!is_closed_) return;
    withdraw();
    close();
  }

  // Whether another member was asked, since the one of `ended` began nothing.
  bool goes_on(const ChannelPtr& ended) {
    const MutexLock guard(turn_);
    if (present() != ended) return true;  // the other thread asked
    const std::shared_ptr<Runtime> node = node_.lock();
    if (is_over_ || is_closed_ || node == nullptr || !ended->broken().empty()) return false;
    release();
    try {
      result_ = ended->outcome();
    } catch (...) {
      try {
        walk_.failed(std::current_exception(), name_);
        begin(*node);
        return true;
      } catch (...) {
        error_ = std::current_exception();
      }
    }
    is_over_ = true;
    return false;
  }

  void release() {
    std::string name;
    {
      const MutexLock guard(lock_);
      name.swap(counted_);
    }
    const std::shared_ptr<Runtime> node = node_.lock();
    if (!name.empty() && node != nullptr) node->families.ended(name);
  }

  const std::weak_ptr<Runtime> node_;
  Mutex turn_;
  Walk walk_ SPEED_GUARDED_BY(turn_);
  const StreamRequest request_;
  const TimePoint deadline_;
  std::string name_ SPEED_GUARDED_BY(turn_);
  Value result_ SPEED_GUARDED_BY(turn_);
  std::exception_ptr error_ SPEED_GUARDED_BY(turn_);
  bool is_over_ SPEED_GUARDED_BY(turn_) = false;
  std::atomic<bool> is_closed_ = false;
  mutable Mutex lock_;
  std::vector<ChannelPtr> channels_ SPEED_GUARDED_BY(lock_);  // all are kept: ids of theirs may be in use
  std::string counted_ SPEED_GUARDED_BY(lock_);  // that member has one more call under way; else empty
};

}  // namespace

std::shared_ptr<StreamChannel> family_stream(Runtime& node, Walk walk, StreamRequest request) {
  return std::make_shared<FamilyChannel>(node, std::move(walk), std::move(request));
}

}  // namespace speed::engine
