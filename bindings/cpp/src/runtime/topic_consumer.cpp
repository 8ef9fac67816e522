#include "runtime/topic_consumer.hpp"

#include <algorithm>
#include <iterator>

#include "fs/clock.hpp"
#include "runtime/span.hpp"

namespace speed::runtime {

namespace {

Array offsets_of(const std::vector<TopicMessage>& messages) {
  Array offsets;
  for (const TopicMessage& message : messages) offsets.emplace_back(message.offset);
  return offsets;
}

// The lane of all of them.
const std::string& lane_of(const std::vector<TopicMessage>& messages) {
  const auto is_other = [&](const TopicMessage& one) { return one.lane != messages.front().lane; };
  if (messages.empty() || std::ranges::any_of(messages, is_other)) {
    throw ConfigurationError("acknowledge messages of one topic, at least one");
  }
  return messages.front().lane;
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

TopicConsumer::TopicConsumer(std::shared_ptr<const TopicHost> host, std::string subscription, std::string name, Map terms,
                             std::size_t prefetch, double wait_seconds)
    : host_(std::move(host)),
      subscription_(std::move(subscription)),
      name_(std::move(name)),
      terms_(std::move(terms)),
      prefetch_(prefetch) {
  join_within(wait_seconds);
}

Map TopicConsumer::who() const { return {{"subscription", subscription_}, {"consumer", name_}}; }

// --- joining ---

void TopicConsumer::join_within(double seconds) {
  const double ends = fs::monotonic_seconds() + seconds;
  while (fs::monotonic_seconds() < ends) {
    if (!is_away([this] { join(); })) return;  // to join twice changes nothing
    pause();
  }
  join();
}

void TopicConsumer::join() {
  Map asked = who();
  for (const Member& term : terms_) asked.set(term.key, term.value);
  host_->ask("subscribe", asked);
  got_ = 0;  // what was not handed out comes again
  waiting_.clear();
}

void TopicConsumer::join_again() {
  try {
    if (is_away([this] { join(); })) pause();
  } catch (const AccessDeniedError&) {  // asking again tells
    pause();
  }
  if (is_closing()) leave({});  // it may have joined after it left
}

// --- receiving ---

std::optional<TopicMessage> TopicConsumer::receive(std::optional<double> timeout_seconds) {
  const double began = fs::monotonic_seconds();
  const std::lock_guard guard(lock_);
  while (!is_closing()) {
    if (!waiting_.empty()) {
      TopicMessage message = std::move(waiting_.front());
      waiting_.pop_front();
      return message;
    }
    const double asked = fs::monotonic_seconds();
    const double left = timeout_seconds ? began + *timeout_seconds - asked : topic_wait_seconds;
    if (fetch(std::clamp(left, 0.0, topic_wait_seconds))) continue;
    const double now = fs::monotonic_seconds();
    if (timeout_seconds && now >= began + *timeout_seconds) return std::nullopt;
    if (now - asked < topic_pause_seconds && topic_pause_seconds < left) pause();
  }
  return std::nullopt;
}

bool TopicConsumer::fetch(double seconds) {
  try {
    const Seconds timeout(seconds + topic_grace_seconds);
    if (is_away([&] { take(host_->ask("receive", question(seconds), timeout)); })) pause();
  } catch (const ApplicationError& error) {
    if (error.code() != "NOT_JOINED") throw;
    if (!is_closing()) join_again();
  }
  return !waiting_.empty();
}

Map TopicConsumer::question(double seconds) const {
  Map asked = who();
  asked.set("most", prefetch_);
  asked.set("got", got_);
  asked.set("wait_ms", static_cast<std::int64_t>(seconds * 1000));
  return asked;
}

void TopicConsumer::take(const Value& answer) {
  std::vector<TopicMessage> messages = host_->messages(answer);
  got_ = answered<std::int64_t>(answer, "batch");
  std::ranges::move(messages, std::back_inserter(waiting_));
}

// --- settling ---

std::uint64_t TopicConsumer::acknowledge(const std::vector<TopicMessage>& messages) const {
  const Value answer = host_->ask(
      "acknowledge", {{"subscription", subscription_}, {"lane", lane_of(messages)}, {"offsets", offsets_of(messages)}});
  return answered<std::uint64_t>(answer, "acknowledged");
}

std::uint64_t TopicConsumer::acknowledge_until(const TopicMessage& message) const {
  const Value answer =
      host_->ask("acknowledge", {{"subscription", subscription_}, {"lane", message.lane}, {"until", message.offset}});
  return answered<std::uint64_t>(answer, "acknowledged");
}

std::uint64_t TopicConsumer::reject(const std::vector<TopicMessage>& messages, std::optional<Seconds> delay) const {
  Map asked = who();
  asked.set("offsets", offsets_of(messages));
  if (delay) asked.set("delay_ms", in_milliseconds("delay", *delay));
  return answered<std::uint64_t>(host_->ask("reject", asked), "rejected");
}

// --- its end ---

bool TopicConsumer::is_closing() const {
  const std::lock_guard guard(closing_lock_);
  return closing_;
}

void TopicConsumer::pause() {
  std::unique_lock guard(closing_lock_);
  closed_.wait_for(guard, Seconds(topic_pause_seconds), [this] { return closing_; });
}

void TopicConsumer::close() {
  {
    const std::lock_guard guard(closing_lock_);
    if (std::exchange(closing_, true)) return;
  }
  closed_.notify_all();
  const std::unique_lock receiving(lock_, std::try_to_lock);
  if (!receiving.owns_lock()) return leave({});  // somebody waits for messages, so none is at hand: the host wakes it
  leave(offsets_of({waiting_.begin(), waiting_.end()}));
  waiting_.clear();
}

void TopicConsumer::leave(const Array& unseen) noexcept {
  try {
    Map asked = who();
    asked.set("unseen", unseen);
    host_->ask("leave", asked, Seconds(topic_grace_seconds));
  } catch (const std::exception&) {  // a host that is away knows no consumers when it is back
  }
}

}  // namespace speed::runtime
