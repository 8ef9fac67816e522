#include "engine/deliver/batches.hpp"

#include <algorithm>

#include "core/counters.hpp"
#include "engine/deliver/opening.hpp"
#include "fs/clock.hpp"
#include "wire/limits.hpp"
#include "wire/names/names.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::engine {

namespace {

constexpr std::size_t batch_messages = 1024;
constexpr std::size_t batch_bytes = 4 << 20;
constexpr const char* ended_too_often = "its handling ended its process too often";

}  // namespace

bool Batches::wants(std::string_view topic) const {
  return std::ranges::any_of(patterns_, [&](const std::string& pattern) { return wire::matches(pattern, topic); });
}

void Batches::add(Arrival arrival) {
  {
    const MutexLock guard(lock_);
    waiting_.push_back(std::move(arrival));
    if (std::exchange(running_, true)) return;
  }
  submit();
}

// What never runs, since the node ends, keeps nothing.
void Batches::submit() {
  workers_.submit([one = weak_from_this()] {
    if (const auto self = one.lock()) self->run();
  });
}

// Handles one batch, then queues the next behind other work.
void Batches::run() {
  const std::vector<Arrival> batch = take();
  if (!batch.empty()) handle(batch);
  {
    const MutexLock guard(lock_);
    running_ = !waiting_.empty() && !is_over();
    if (!running_) return;
  }
  submit();
}

std::vector<Arrival> Batches::take() {
  std::vector<Arrival> batch;
  {
    const MutexLock guard(lock_);
    std::size_t size = 0;
    while (!waiting_.empty() && batch.size() < batch_messages && size < batch_bytes) {
      if (is_last(*waiting_.front()) && !batch.empty()) break;  // it comes alone
      Arrival arrival = std::move(waiting_.front());
      waiting_.pop_front();
      size += arrival->view.bytes().size();
      batch.push_back(std::move(arrival));
      if (is_last(*batch.front())) break;
    }
  }
  std::erase_if(batch, [this](const Arrival& arrival) { return !opened(*arrival); });
  return batch;
}

// What it is checked with may be away for a while: nothing is lost meanwhile.
bool Batches::opened(Message::State& message) const {
  while (!is_over()) {
    try {
      return open_message(context_, replies_, message);
    } catch (const Unavailable&) {
      context_.stats.count(core::counters::messages_waiting_for_trust);
    }
    context_.life.wait_for_end(wire::limits::retry_first);
  }
  return false;  // it waits in its lane for the next start
}

// Before this process began it, as far as is known.
bool Batches::is_last(const Message::State& message) const {
  return message.redelivered && message.lane->deliveries(message.sequence) + 1 >= context_.max_deliveries;
}

bool Batches::begin(Message::State& message) const {
  message.deliveries = message.redelivered ? message.lane->deliveries(message.sequence) + 1 : 1;
  const bool is_retried = message.lane->is_dead_letter();  // who asked for it stands behind this delivery
  if (message.redelivered && !is_retried && message.deliveries > context_.max_deliveries) return false;
  if (message.redelivered) message.lane->begin_again(message.sequence, message.deliveries);
  return true;
}

// Until it is taken, or each of its messages was alone at last.
void Batches::handle(const std::vector<Arrival>& batch) {
  std::vector<Arrival> left;
  for (const Arrival& arrival : batch) {
    if (begin(*arrival)) {
      left.push_back(arrival);
    } else {
      put_aside(*arrival, ended_too_often);
    }
  }
  unsigned attempt = 1;
  for (const Arrival& arrival : left) attempt = std::max(attempt, arrival->deliveries);
  for (; !left.empty() && attempt < context_.max_deliveries; ++attempt) {
    if (!failure(left)) return;
    pause(attempt);
    for (const Arrival& arrival : left) {
      ++arrival->deliveries;
      if (arrival->redelivered) arrival->lane->begin_again(arrival->sequence, arrival->deliveries);
    }
  }
  for (const Arrival& arrival : left) {
    if (const auto why = failure({arrival})) put_aside(*arrival, *why);
  }
}

// None if the node leaves, too. It waits for what is away.
std::optional<std::string> Batches::failure(const std::vector<Arrival>& batch) {
  std::vector<Message> messages;
  messages.reserve(batch.size());
  for (const Arrival& arrival : batch) messages.push_back(MessageAccess::of(arrival));
  std::optional<TimePoint> arrived;
  if (batch.front()->deliveries == 1) arrived = batch.front()->arrived;
  for (unsigned attempt = 1; !is_over(); ++attempt) {
    try {
      finish(batch, handled(messages, attempt == 1 ? arrived : std::nullopt));
      return std::nullopt;
    } catch (const Unavailable& error) {
      context_.stats.count(core::counters::batches_failed);
      context_.log.limited(LogLevel::warning, "speed.messages", "batches_failed",
                           std::string("a batch waits: ") + error.what());
      pause(attempt);
    } catch (const std::exception& error) {
      context_.stats.count(core::counters::batches_failed);
      context_.callback_failed("the handler of a batch of '" + batch.front()->lane->source() + "'");
      return wire::readable(error.what(), wire::limits::max_error_characters);
    } catch (...) {
      context_.stats.count(core::counters::batches_failed);
      context_.callback_failed("the handler of a batch of '" + batch.front()->lane->source() + "'");
      return "the handler threw what is no std::exception";
    }
  }
  return std::nullopt;
}

// As soon as there is room for that.
void Batches::put_aside(Message::State& message, const std::string& why) {
  for (unsigned attempt = 1; !is_over(); ++attempt) {
    if (give_up_(message, why)) return message.done();
    pause(attempt);
  }
}

void Batches::pause(unsigned attempt) const {
  const Duration longer = wire::limits::retry_first * (1 << std::min(attempt - 1, 20U));
  context_.life.wait_for_end(std::min(longer, wire::limits::retry_most));
}

Node::Refusals Batches::handled(std::vector<Message>& messages, std::optional<TimePoint> arrived) const {
  const ProgramsCode scope(*context_.fork_mark);
  const HandlerSpan span(context_.stats, HandlerSpan::batches, arrived);
  return handler_(messages);
}

void Batches::finish(const std::vector<Arrival>& batch, const Node::Refusals& refused) {
  std::map<LanePtr, std::vector<std::uint64_t>> lanes;
  for (std::size_t place = 0; place < batch.size(); ++place) {
    Message::State& message = *batch[place];
    const auto refusal = refused.find(place);
    const bool wants_answer = message.wants_answer.exchange(false);
    if (refusal != refused.end()) {
      refuse(message, refusal->second, wants_answer);
    } else if (wants_answer) {
      replies_.acknowledge(message.source(), message.sequence, false);
    }
    if (!message.finished.exchange(true)) lanes[message.lane].push_back(message.sequence);
  }
  for (const auto& [lane, sequences] : lanes) lane->finish(sequences);
}

void Batches::refuse(const Message::State& message, const Node::Refusal& refusal, bool wants_answer) {
  context_.stats.count(core::counters::messages_refused);
  if (wants_answer) {
    replies_.refuse(message, "EXECUTION_FAILED", wire::readable(refusal.why, wire::limits::max_error_characters));
  } else if (message.is_event && is_unrecorded(refusal.code)) {
    const auto text = refused_events_.report(message.source(), refusal, fs::monotonic_now());
    if (text) replies_.refuse(message, refusal.code, wire::readable(*text, wire::limits::max_error_characters));
  }
}

}  // namespace speed::engine
