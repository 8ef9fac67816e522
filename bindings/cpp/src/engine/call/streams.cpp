#include "engine/call/streams.hpp"

#include "engine/threads/workers.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"

namespace speed::engine {

namespace {

const char* why_broken(core::Arrived arrived) {
  return arrived == core::Arrived::beyond_credit ? "what it sent breaks the stream: beyond credit"
                                                 : "what it sent breaks the stream: out of order";
}

}  // namespace

void Channel::bind(std::weak_ptr<void> owner, Write write, std::function<void()> withdraw) {
  owner_ = std::move(owner);
  write_ = std::move(write);
  withdraw_ = std::move(withdraw);
}

void Channel::arrive(const wire::StreamPart& part, ByteView payload) {
  const MutexLock guard(lock_);
  if (part.progress) {
    progress_ = part.progress;
  } else if (!part.number) {
    credit_.grant({part.credit_items, part.credit_bytes});
  } else if (!is_closed_) {
    take_in(part, payload);
  }
  changed_.notify_all();
}

void Channel::take_in(const wire::StreamPart& part, ByteView payload) {
  const std::uint64_t bytes = payload.size() - part.items_at;
  const core::Arrived arrived = window_.arrive(*part.number, part.items, bytes);
  if (arrived == core::Arrived::again) return;
  if (arrived != core::Arrived::next || is_last_) {
    if (broken_.empty()) broken_ = why_broken(arrived);
    arrived_.clear();
    return;
  }
  if (part.items > 0) {
    arrived_.push_back({Found::items, Bytes(payload.begin(), payload.end()), part.items, bytes, {}});
  }
  is_last_ = part.last;
}

void Channel::end(core::Outcome outcome) {
  const MutexLock guard(lock_);
  outcome_ = std::move(outcome);
  is_over_ = true;
  changed_.notify_all();
}

void Channel::close() {
  const MutexLock guard(lock_);
  is_closed_ = true;
  arrived_.clear();
  changed_.notify_all();
}

StreamChannel::Taken Channel::take(Seconds timeout) {
  UniqueLock guard(lock_);
  Taken taken = look();
  if (taken.found != Found::nothing || timeout <= Seconds::zero()) return taken;
  guard.unlock();
  const Workers::PlaceRelease away;
  guard.lock();
  changed_.wait_for(guard, timeout, [&]() SPEED_REQUIRES(lock_) {
    if (taken.found == Found::nothing) taken = look();
    return taken.found != Found::nothing;
  });
  guard.unlock();  // before the place is taken again
  return taken;
}

StreamChannel::Taken Channel::look() {
  Taken taken;
  if (is_closed_ || !broken_.empty()) {
    taken.found = Found::over;
  } else if (progress_) {
    taken.found = Found::progress;
    taken.progress = *std::exchange(progress_, std::nullopt);
  } else if (!arrived_.empty()) {
    taken = std::move(arrived_.front());
    arrived_.pop_front();
  } else if (is_over_ || is_last_) {
    taken.found = is_over_ ? Found::over : Found::last;
  }
  return taken;
}

void Channel::process(std::uint64_t items, std::uint64_t bytes) {
  std::optional<core::Credit> granted;
  {
    const MutexLock guard(lock_);
    granted = window_.process(items, bytes);
    if (!granted || is_over_ || is_closed_ || is_last_) return;
  }
  send(wire::encode_credit(id_, granted->items, granted->bytes), true);
}

void Channel::open() {
  core::Credit granted;
  {
    const MutexLock guard(lock_);
    granted = window_.open();
  }
  send(wire::encode_credit(id_, granted.items, granted.bytes), true);
}

StreamChannel::Reserved Channel::reserve(std::uint64_t bytes, Seconds timeout) {
  UniqueLock guard(lock_);
  Reserved reserved = look_for(bytes);
  if (reserved != Reserved::nothing || timeout <= Seconds::zero()) return reserved;
  guard.unlock();
  const Workers::PlaceRelease away;
  guard.lock();
  changed_.wait_for(guard, timeout, [&]() SPEED_REQUIRES(lock_) {
    if (reserved == Reserved::nothing) reserved = look_for(bytes);
    return reserved != Reserved::nothing;
  });
  guard.unlock();
  return reserved;
}

StreamChannel::Reserved Channel::look_for(std::uint64_t bytes) {
  if (is_closed_ || is_over_ || !broken_.empty()) return Reserved::over;
  const bool has_credit = bytes == 0 ? credit_.has_begun() : credit_.send(bytes);
  return has_credit ? Reserved::credit : Reserved::nothing;
}

void Channel::report(const StreamProgress& progress) {
  {
    const MutexLock guard(lock_);
    if (is_closed_ || !rate_.takes(progress.done, progress.total, fs::monotonic_now())) return;
  }
  try {
    send(wire::encode_progress(id_, progress), false);
  } catch (const Error&) {  // it is lost where there is no room
  }
}

std::string Channel::broken() const {
  const MutexLock guard(lock_);
  return broken_;
}

void Channel::withdraw() {
  if (const std::shared_ptr<void> kept = owner_.lock()) withdraw_();
}

void Channel::send(ByteView payload, bool may_wait) const {
  const std::shared_ptr<void> kept = owner_.lock();
  if (kept == nullptr) throw NodeClosedError("the node was closed: nothing was written");
  write_(payload, may_wait);
}

void Streams::add(const std::string& node, std::shared_ptr<Channel> channel) {
  const std::string& id = channel->request_id();
  const MutexLock guard(lock_);
  channels_[{node, id}] = std::move(channel);
}

// A channel that nobody holds any more ends outside of the lock.
void Streams::remove(const std::string& node, const std::string& id) {
  std::shared_ptr<Channel> gone;
  const MutexLock guard(lock_);
  const auto found = channels_.find({node, id});
  if (found == channels_.end()) return;
  gone = std::move(found->second);
  channels_.erase(found);
}

bool Streams::arrive(const std::string& node, ByteView payload) {
  const wire::StreamPart part = wire::decode_stream(payload);
  std::shared_ptr<Channel> channel;
  {
    const MutexLock guard(lock_);
    const auto found = channels_.find({node, part.request_id});
    if (found == channels_.end()) return false;
    channel = found->second;
  }
  channel->arrive(part, payload);
  return true;
}

}  // namespace speed::engine
