#include "runtime/batches.hpp"

#include <algorithm>

#include "fs/clock.hpp"
#include "runtime/opening.hpp"
#include "wire/limits.hpp"
#include "wire/names.hpp"
#include "wire/value_codec.hpp"

namespace speed::runtime {

namespace {

constexpr std::size_t batch_messages = 1024;
constexpr std::size_t batch_bytes = 4 << 20;
constexpr double again_seconds = 0.25;  // pause before a batch is handed over again

}  // namespace

bool Batches::wants(std::string_view topic) const {
  return std::ranges::any_of(patterns_, [&](const std::string& pattern) { return wire::matches(pattern, topic); });
}

void Batches::add(Arrival arrival) {
  {
    const std::lock_guard guard(lock_);
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
    const std::lock_guard guard(lock_);
    running_ = !waiting_.empty() && !leaving_;
    if (!running_) return;
  }
  submit();
}

std::vector<Arrival> Batches::take() {
  std::vector<Arrival> batch;
  {
    const std::lock_guard guard(lock_);
    std::size_t size = 0;
    while (!waiting_.empty() && batch.size() < batch_messages && size < batch_bytes) {
      Arrival arrival = std::move(waiting_.front());
      waiting_.pop_front();
      size += arrival->view.bytes().size();
      batch.push_back(std::move(arrival));
    }
  }
  std::erase_if(batch, [this](const Arrival& arrival) { return !opened(*arrival); });
  return batch;
}

// What it is checked with may be away for a while: nothing is lost meanwhile.
bool Batches::opened(Message::State& message) const {
  while (!leaving_ && !context_.stop.requested()) {
    try {
      return open_message(context_, replies_, message);
    } catch (const Unavailable&) {
      context_.stats.count("messages_waiting_for_trust");
    }
    context_.stop.wait_for(again_seconds);
  }
  return false;  // it waits in its lane for the next start
}

void Batches::handle(const std::vector<Arrival>& batch) {
  std::vector<Message> messages;
  messages.reserve(batch.size());
  for (const Arrival& arrival : batch) messages.emplace_back(arrival);
  while (!leaving_ && !context_.stop.requested()) {
    try {
      return finish(batch, handled(messages));
    } catch (const Unavailable& error) {  // it is tried again until it can
      context_.stats.count("batches_failed");
      context_.log.rarely(LogLevel::warning, "speed.messages", "batches_failed", std::string("a batch waits: ") + error.what());
    } catch (...) {
      context_.stats.count("batches_failed");
      context_.callback_failed("the handler of a batch of '" + batch.front()->lane->source() + "'");
    }
    context_.stop.wait_for(again_seconds);
  }
}

Node::Refusals Batches::handled(std::vector<Message>& messages) const {
  const ProgramsCode scope(*context_.fork_mark);
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
      replies_.acknowledge(message, false);
    }
    if (!message.finished.exchange(true)) lanes[message.lane].push_back(message.sequence);
  }
  for (const auto& [lane, sequences] : lanes) lane->finish(sequences);
}

void Batches::refuse(const Message::State& message, const Node::Refusal& refusal, bool wants_answer) {
  context_.stats.count("messages_refused");
  if (wants_answer) {
    replies_.refuse(message, "EXECUTION_FAILED", wire::readable(refusal.why, wire::limits::max_error_characters));
  } else if (message.is_event && is_unrecorded(refusal.code)) {
    const auto text = refused_events_.report(message.source(), refusal, fs::monotonic_seconds());
    if (text) replies_.refuse(message, refusal.code, wire::readable(*text, wire::limits::max_error_characters));
  }
}

}  // namespace speed::runtime
