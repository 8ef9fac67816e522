#include "engine/lane/protocol.hpp"

#include <sys/epoll.h>

#include <array>
#include <cmath>

#include "core/counters.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "wire/message/message_parts.hpp"

namespace speed::engine {

namespace {

// Bounds per lane and wake-up: no lane starves the others (L-19).
constexpr std::size_t read_envelopes = 128;
constexpr std::size_t read_bytes = 4 << 20;

// Between two looks where there is no bell: often after activity, seldom when idle (L-22).
constexpr Duration shortest_idle = 500us;
constexpr Duration longest_idle = 20ms;

constexpr std::size_t most_left = wire::limits::max_unfinished - 4;  // messages that stay in a lane that was read on
constexpr Duration bell_period = 500us;   // how long busy lanes may keep the reader from the bell
constexpr std::size_t busy_lanes = 4;     // polled at most
constexpr unsigned looks_a_yield = 4;
constexpr Duration failing_pause = 50ms;  // before what failed is tried again

}  // namespace

Protocol::Protocol(Context& context, std::unique_ptr<fs::Bell> bell, std::unique_ptr<fs::Inbox> inbox,
                   std::function<void()> scanned)
    : context_(context),
      bell_(std::move(bell)),
      inbox_(std::move(inbox)),
      scanned_(std::move(scanned)),
      lanes_(
          context, *inbox_, [this](const std::string& source) { return dispatch_->may_read(source); },
          [this](const wire::NodeId& id) { resume(id); }),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      polling_(context.spin),
      idle_time_(shortest_idle),
      waits_until_(never) {
  if (!epoll_) fs::throw_errno("epoll");
  if (bell_ == nullptr) return;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = bell_->fd();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bell_->fd(), &event) != 0) fs::throw_errno("epoll");
}

void Protocol::wake() { resume(context_.id); }

void Protocol::wake_by(TimePoint deadline) {
  if (deadline < waits_until_.load()) wake();
}

void Protocol::look_again() {
  next_scan_ = TimePoint();
  wake();
}

void Protocol::watch_reader(OutgoingLink& link) {
  const int fd = context_.polling ? -1 : link.bell_fd();
  if (fd < 0) return;
  epoll_event event{};  // EPOLLERR is always told
  event.events = EPOLLET;  // and once: who is told need not touch the descriptor, which others may have closed by then
  event.data.fd = fd;
  const MutexLock guard(lock_);
  if (!epoll_) return;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST) watched_[fd] = link.target();
}

void Protocol::has_no_reader(const std::string& name) {
  if (departures_.suspect(name)) wake();
}

void Protocol::node_left(const std::string& name) {
  note_departed(name);
  wake();
}

// The scan finds the answers to all calls that are told, and begins before they are.
void Protocol::note_departed(const std::string& name) {
  const std::uint64_t entered = dispatch_->calls_entered();
  departures_.add(name, entered);
  next_scan_ = TimePoint();
}

// Each part of a turn is tried whatever became of the others: no lane that cannot be read keeps a deadline from passing.
void Protocol::step(bool wait) {
  fs::Rings rings;
  bool failed = !guarded("bell", [&] { rings = wait_for_rings(wait && !failing_); });
  const TimePoint now = fs::monotonic_now();
  failed |= !guarded("lanes", [&] { read_lanes(rings, now); });
  failed |= !guarded("departures", [&] { tell_departed(now); });
  failed |= !guarded("deadlines", [&] { dispatch_->expire(now); });
  failing_ = failed;
  if (!failed) return;
  next_scan_ = TimePoint();
  if (wait) context_.life.wait_for_end(failing_pause);
}

// False if it failed; that is counted and said.
template <class Part>
bool Protocol::guarded(const char* what, Part part) {
  try {
    part();
    return true;
  } catch (const std::exception& error) {
    context_.stats.count(core::counters::protocol_failures);
    context_.log.limited(LogLevel::error, "speed.protocol", what,
                         std::string(what) + " cannot be looked at, it is tried again: " + error.what());
    return false;
  }
}

// Rings are not lost to a scan, which looks at few of the lanes at rest.
void Protocol::read_lanes(const fs::Rings& rings, TimePoint now) {
  for (const wire::NodeId& id : rings.sources) read_rung(id, now);
  if (rings.everything || now >= next_scan_.load()) full_scan(rings.everything || failing_, now);
}

void Protocol::read_rung(const wire::NodeId& id, TimePoint now) {
  if (const InboundLanePtr lane = lanes_.of(id, now)) {
    drain(lane, now, false);
  } else if (lanes_.seek(id)) {
    next_scan_ = TimePoint();
  }
}

// Settles what waits for nodes that were gone, or replaced, before the last scan, once their lanes are read to the end
// (S-7, S-21).
void Protocol::tell_departed(TimePoint now) {
  const auto is_replaced = [this](const auto& name, std::uint32_t generation) {
    return dispatch_->has_older_calls(name, generation);
  };
  for (const std::string& name : departures_.look(*context_.registry, now, is_replaced)) note_departed(name);
  if (!listed_) return;  // what one of them answered may lie in a lane that is not known
  for (const auto& [name, entered] : departures_.take()) {
    const InboundLanePtr lane = lanes_.opened(wire::node_id(name));
    if (lane != nullptr && lane->has_more()) {
      departures_.put_back(name, entered);
    } else {
      dispatch_->departed(name, entered);
    }
  }
}

// --- waiting ---

fs::Rings Protocol::wait_for_rings(bool wait) {
  if (bell_ == nullptr) {
    unread_.clear();  // each turn looks at all lanes
    if (wait && !context_.life.wait_for_end(idle_time_)) {
      idle_time_ = std::min(idle_time_ * 3 / 2, longest_idle);
    }
    return {{}, true};
  }
  const TimePoint now = fs::monotonic_now();
  if (!unread_.empty()) {
    fs::Rings rings = now < bell_due_ ? fs::Rings{} : look_at_bell(now);
    for (const wire::NodeId& id : std::exchange(unread_, {})) rings.sources.push_back(id);
    return rings;
  }
  if (!wait) return look_at_bell(now);
  waits_until_ = never;  // a deadline that comes while the next lines run wakes at once
  waits_until_ = std::min({next_scan_.load(), dispatch_->next_deadline(), departures_.next_look()});
  const Duration left = std::max(Duration::zero(), waits_until_.load() - now);
  if (left > polling_.span && polling_.pays(now)) {
    if (std::optional<fs::Rings> rings = poll(now)) return *std::move(rings);
  }
  return block(left);
}

fs::Rings Protocol::look_at_bell(TimePoint now) {
  bell_due_ = now + bell_period;
  return bell_->drain();
}

// Looks at the ends of the busy lanes, which grow before the bell rings (registry_spec/decisions/0008). The rings of
// what was read in this way are stale, and harmless: they are taken now and then, and before the reader sleeps.
std::optional<fs::Rings> Protocol::poll(TimePoint now) {
  const TimePoint until = now + polling_.span;
  for (unsigned looks = 1;; ++looks) {
    if (std::optional<fs::Rings> rings = poll_once(now)) {
      polling_.hit();
      if (core_.hit(now)) leave_this_core();
      return rings;
    }
    if (now >= until) break;  // behind a last look: the turn that another took may have been all the time
    if (looks % looks_a_yield == 0) std::this_thread::yield();  // the other side may wait for this very core
    const TimePoint before = std::exchange(now, fs::monotonic_now());
    core_.looked(now - before);
    if (polling_.is_crowded(now - before, now)) break;
  }
  fs::Rings rings = look_at_bell(now);
  if (!rings.sources.empty() || rings.everything) return rings;
  polling_.missed();
  return std::nullopt;
}

std::optional<fs::Rings> Protocol::poll_once(TimePoint now) {
  if (now >= bell_due_) {
    fs::Rings rings = look_at_bell(now);
    if (!rings.sources.empty() || rings.everything) return rings;
  }
  for (const InboundLanePtr& lane : busy_) {
    if (lane->grew()) return fs::Rings{{lane->id()}, false};
  }
  return std::nullopt;
}

fs::Rings Protocol::block(Duration longest) {
  const TimePoint began = fs::monotonic_now();
  const auto longest_ms = std::chrono::ceil<std::chrono::milliseconds>(std::min<Duration>(longest, 60s)).count();
  std::array<epoll_event, 16> events;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled by the next line
  const int count =
      epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), static_cast<int>(longest_ms));
  fs::Rings rings;
  for (int at = 0; at < count; ++at) {
    const int fd = events[static_cast<std::size_t>(at)].data.fd;
    if (fd == bell_->fd()) {
      polling_.blocked_for(fs::monotonic_now() - began);
      rings = bell_->drain();
    } else {
      reader_died(fd);
    }
  }
  return rings;
}

void Protocol::reader_died(int fd) {
  std::string target;
  {
    const MutexLock guard(lock_);
    const auto found = watched_.find(fd);
    if (found == watched_.end()) return;
    target = found->second;
    watched_.erase(found);
  }
  departures_.suspect(target);
}

// --- lanes ---

void Protocol::full_scan(bool everything, TimePoint now) {
  next_scan_ = now + wire::limits::full_scan;
  const std::vector<std::string> departed = departures_.begin_scan();
  listed_ = guarded("inbox", [&] { lanes_.list(now); });
  guarded("dead letters", scanned_);
  lanes_.due(now, departed, everything, [&](const InboundLanePtr& lane) { drain(lane, now, true); });
  if (!listed_) throw std::runtime_error("the inbox was not listed");
}

// Has a lane read again that was left with something in it.
void Protocol::resume(const wire::NodeId& lane_id) {
  const MutexLock guard(lock_);
  if (bell_ != nullptr) bell_->wake(lane_id);
}

void Protocol::drain(const InboundLanePtr& lane, TimePoint now, bool scan) {
  if (context_.registration->is_over()) return;  // a successor may read already
  if (context_.life.is_leaving() && lane->unfinished() >= most_left)
    return;  // its cursor can say which, for the next start
  std::size_t envelopes = 0;
  std::size_t bytes = 0;
  bool more = true;
  const LanePtr from = lane;
  try {
    while (more && envelopes < read_envelopes && bytes < read_bytes) {
      more = lane->read(received_, read_envelopes - envelopes, now, scan && envelopes == 0);
      for (const fs::Received& received : received_) {
        deliver(from, received);
        bytes += received.payload.size();
      }
      envelopes += received_.size();
      if (received_.empty()) break;
    }
  } catch (const std::exception& error) {
    const auto* const failure = dynamic_cast<const std::system_error*>(&error);
    if (failure != nullptr && failure->code().value() == ENOENT) unread_.push_back(lane->id());  // another stands there
    return give_up(lane, error.what());
  }
  received_.clear();  // a large one keeps its memory
  if (envelopes > 0) was_busy(lane);
  if (envelopes > 0 || more) {
    lanes_.used(*lane);
  } else {
    lanes_.idle(lane, scan);
  }
  if (more && std::ranges::find(unread_, lane->id()) == unread_.end()) unread_.push_back(lane->id());
}

void Protocol::was_busy(const InboundLanePtr& lane) {
  idle_time_ = shortest_idle;
  if (!busy_.empty() && busy_.front() == lane) return;
  std::erase(busy_, lane);
  busy_.insert(busy_.begin(), lane);
  if (busy_.size() > busy_lanes) busy_.pop_back();
}

// What a message looked like that cannot be read, and who wrote it (M-35).
std::string Protocol::described(const std::string& source, const fs::Received& received) {
  const auto type = received.header.type;
  const bool is_message = type == wire::EnvelopeType::message || type == wire::EnvelopeType::event;
  if (!is_message || (received.header.flags & wire::flag_segment) != 0) return "";
  const auto entry = context_.registry->live(source);
  const std::string by = entry == nullptr ? "a node that left" : entry->language + " " + entry->version;
  return " (" + wire::outline(received.payload) + "; written by " + by + ")";
}

void Protocol::deliver(const LanePtr& lane, const fs::Received& received) {
  try {
    dispatch_->dispatch(lane, received);
  } catch (const WireError& error) {
    context_.stats.rejected(error.reason());
    context_.log.limited(LogLevel::warning, "speed.protocol", error.reason(), [&] {
      return "an envelope of '" + lane->source() + "' is refused: " + error.what() +
             described(lane->source(), received);
    });
    lane->drop(received.header.sequence);
  } catch (const std::exception&) {
    context_.stats.count(core::counters::dispatch_failures);
    lane->drop(received.header.sequence);
  }
}

void Protocol::give_up(const InboundLanePtr& lane, const std::string& why) {
  context_.log.limited(LogLevel::warning, "speed.protocol", "lanes_failed",
                       "the lane of '" + lane->source() + "' cannot be read, it is opened again: " + why);
  std::erase(busy_, lane);
  lanes_.give_up(*lane);
}

void Protocol::close() {
  lanes_.close();
  busy_.clear();
  inbox_->close();
}

void Protocol::release_bell() {
  const MutexLock guard(lock_);
  bell_.reset();
  watched_.clear();
  epoll_.close();
}

}  // namespace speed::engine
