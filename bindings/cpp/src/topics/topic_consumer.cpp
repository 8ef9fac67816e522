#include "topics/topic_consumer.hpp"

#include <algorithm>
#include <iterator>

#include "engine/span.hpp"
#include "fs/clock.hpp"

namespace speed::engine {

namespace {

Array offsets_of(const std::vector<TopicMessage>& messages) {
  Array offsets;
  for (const TopicMessage& message : messages) offsets.emplace_back(message.offset);
  return offsets;
}

bool is_of_same_time(const TopicMessage& one, const TopicMessage& other) {
  return one.lane == other.lane && one.epoch == other.epoch;
}

void check_topic(const std::vector<TopicMessage>& messages, const std::string& topic) {
  if (messages.empty()) throw ConfigurationError("acknowledge messages, at least one");
  for (const TopicMessage& one : messages) {
    if (one.topic != topic) {
      throw InvalidArgumentsError("this is a message of another topic, '" + one.topic + "': '" + topic +
                                  "' is consumed here");
    }
  }
}

// Whether the host is away; what was asked may be asked again, then.
template <class Ask>
bool is_away(Ask ask) {
  try {
    ask();
    return false;
  } catch (const UnknownNodeError&) {
  } catch (const NodeLeftError&) {
  } catch (const CallTimeoutError&) {
  }
  return true;
}

}  // namespace

TopicConsumer::TopicConsumer(std::shared_ptr<const TopicHost> host, std::string subscription, std::string name,
                             Map terms, std::size_t prefetch, Duration wait)
    : host_(std::move(host)),
      subscription_(std::move(subscription)),
      name_(std::move(name)),
      terms_(std::move(terms)),
      prefetch_(prefetch) {
  join_within(wait);
}

Map TopicConsumer::who() const { return {{"subscription", subscription_}, {"consumer", name_}}; }

// --- joining ---

void TopicConsumer::join_within(Duration wait) {
  const TimePoint ends = fs::monotonic_now() + wait;
  while (fs::monotonic_now() < ends) {
    const bool is_host_away = is_away([this] {
      lock_.assume_held();
      join();
    });
    if (!is_host_away) return;  // to join twice changes nothing
    pause();
  }
  join();
}

void TopicConsumer::join() {
  Map arguments = who();
  for (const Member& term : terms_) arguments.set(term.key, term.value);
  host_->ask("subscribe", arguments);
  got_ = 0;  // what was not handed out comes again
  begun_ = 0;
  waiting_.clear();
}

void TopicConsumer::join_again() {
  try {
    const bool is_host_away = is_away([this] {
      lock_.assume_held();
      join();
    });
    if (is_host_away) pause();
  } catch (const AccessDeniedError&) {  // asking again tells
    pause();
  }
  if (is_closing()) leave({});  // it may have joined after it left
}

// --- receiving ---

std::optional<TopicMessage> TopicConsumer::receive(std::optional<Duration> timeout) {
  const TimePoint began = fs::monotonic_now();
  const MutexLock guard(lock_);
  while (!is_closing()) {
    if (auto message = next()) return message;
    const TimePoint round_began = fs::monotonic_now();
    const Duration left = timeout ? began + *timeout - round_began : topic_wait;
    if (!waiting_.empty()) {
      begin();
      if (begun_ > 0) continue;
    } else if (fetch(std::clamp(left, Duration::zero(), topic_wait))) {
      continue;
    }
    const TimePoint now = fs::monotonic_now();
    if (timeout && now >= began + *timeout) return std::nullopt;
    if (now - round_began < topic_pause && topic_pause < left) pause();
  }
  return std::nullopt;
}

std::optional<TopicMessage> TopicConsumer::next() {
  if (begun_ == 0 || fs::monotonic_now() > fresh_until_) return std::nullopt;
  const std::int64_t epoch = acknowledged_epoch_;
  if (epoch != -1 && epoch != waiting_.front().epoch) return std::nullopt;
  --begun_;
  TopicMessage message = std::move(waiting_.front());
  waiting_.pop_front();
  return message;
}

template <class Ask>
void TopicConsumer::ask_joined(Ask ask) {
  try {
    if (is_away(ask)) pause();
  } catch (const ApplicationError& error) {
    if (error.code() != "NOT_JOINED") throw;
    if (!is_closing()) join_again();
  }
}

bool TopicConsumer::fetch(Duration wait) {
  const Duration timeout = wait + topic_grace;
  ask_joined([&] {
    lock_.assume_held();
    take(host_->ask("receive", question(wait), timeout));
  });
  return !waiting_.empty();
}

void TopicConsumer::begin() {
  window_ = begun_ > 0 ? 1 : std::min(2 * window_, topic_most_begun);
  const std::size_t count = std::min(std::max(window_, begun_), waiting_.size());
  Map question = who();
  question.set("lane", waiting_.front().lane);
  question.set("epoch", waiting_.front().epoch);
  question.set("offsets", offsets_of({waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count)}));
  begun_ = 0;
  ask_joined([&] {
    lock_.assume_held();
    begun(host_->ask("begin", question, topic_grace), count);
  });
}

// What the host does not know any more is gone.
void TopicConsumer::begun(const Value& answer, std::size_t count) {
  TopicMessage now;
  now.lane = answered<std::string>(answer, "lane");
  now.epoch = answered<std::int64_t>(answer, "epoch");
  acknowledged_epoch_ = -1;
  if (!is_of_same_time(waiting_.front(), now)) return waiting_.clear();
  const auto offsets = answered<std::vector<std::int64_t>>(answer, "begun");
  const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
  const auto is_gone = [&](const TopicMessage& one) { return std::ranges::find(offsets, one.offset) == offsets.end(); };
  const auto rest = std::remove_if(waiting_.begin(), end, is_gone);
  begun_ = static_cast<std::size_t>(rest - waiting_.begin());
  waiting_.erase(rest, end);
  fresh_until_ = fs::monotonic_now() + topic_fresh_time;
}

Map TopicConsumer::question(Duration wait) const {
  Map arguments = who();
  arguments.set("most", prefetch_);
  arguments.set("got", got_);
  arguments.set("wait_ms", std::chrono::duration_cast<std::chrono::milliseconds>(wait).count());
  arguments.set("begin", 1);
  return arguments;
}

void TopicConsumer::take(const Value& answer) {
  std::vector<TopicMessage> messages = host_->messages(answer);
  got_ = answered<std::int64_t>(answer, "batch");
  std::ranges::move(messages, std::back_inserter(waiting_));
  begun_ = std::min<std::size_t>(1, waiting_.size());
  window_ = 1;
  acknowledged_epoch_ = -1;
  fresh_until_ = fs::monotonic_now() + topic_fresh_time;
}

// --- settling ---

// One question for what was given between two seeks.
std::uint64_t TopicConsumer::acknowledge(const std::vector<TopicMessage>& messages) const {
  check_topic(messages, host_->topic());
  std::vector<TopicMessage> left = messages;
  std::uint64_t acknowledged = 0;
  while (!left.empty()) {
    std::vector<TopicMessage> others;
    std::ranges::copy_if(left, std::back_inserter(others),
                         [&](const TopicMessage& one) { return !is_of_same_time(one, left.front()); });
    std::erase_if(left, [first = left.front()](const TopicMessage& one) { return !is_of_same_time(one, first); });
    acknowledged += settle(left, false);
    left = std::move(others);
  }
  return acknowledged;
}

std::uint64_t TopicConsumer::acknowledge_until(const TopicMessage& message) const {
  check_topic({message}, host_->topic());
  return settle({message}, true);
}

std::uint64_t TopicConsumer::settle(const std::vector<TopicMessage>& messages, bool until) const {
  const TopicMessage& first = messages.front();
  Map arguments{{"subscription", subscription_}, {"lane", first.lane}, {"epoch", first.epoch}};
  if (until) {
    arguments.set("until", first.offset);
  } else {
    arguments.set("offsets", offsets_of(messages));
  }
  const Value answer = host_->ask("acknowledge", arguments);
  acknowledged_epoch_ = answered<std::int64_t>(answer, "epoch");
  return answered<std::uint64_t>(answer, "acknowledged");
}

std::uint64_t TopicConsumer::reject(const std::vector<TopicMessage>& messages, std::optional<Seconds> delay) const {
  Map arguments = who();
  arguments.set("offsets", offsets_of(messages));
  if (delay) arguments.set("delay_ms", in_milliseconds("delay", *delay));
  return answered<std::uint64_t>(host_->ask("reject", arguments), "rejected");
}

// --- its end ---

bool TopicConsumer::is_closing() const {
  const MutexLock guard(closing_lock_);
  return closing_;
}

void TopicConsumer::pause() {
  UniqueLock guard(closing_lock_);
  closed_.wait_for(guard, topic_pause, [this]() SPEED_REQUIRES(closing_lock_) { return closing_; });
}

void TopicConsumer::close() {
  {
    const MutexLock guard(closing_lock_);
    if (std::exchange(closing_, true)) return;
  }
  closed_.notify_all();
  if (!lock_.try_lock()) return leave({});  // somebody waits for messages, so none is at hand: the host wakes it
  const MutexLock receiving(lock_, std::adopt_lock);
  leave(offsets_of({waiting_.begin(), waiting_.end()}));
  waiting_.clear();
}

void TopicConsumer::leave(const Array& unseen) noexcept {
  try {
    Map arguments = who();
    arguments.set("unseen", unseen);
    host_->ask("leave", arguments, topic_grace);
  } catch (const std::exception&) {  // a host that is away knows no consumers when it is back
  }
}

}  // namespace speed::engine
