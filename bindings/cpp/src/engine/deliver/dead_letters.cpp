#include "engine/deliver/dead_letters.hpp"

#include "core/counters.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::engine {

using wire::LetterState;

// The lane of a letter that is handled again: its file goes, or waits as before.
class DeadLetters::Lane : public engine::Lane {
 public:
  Lane(std::shared_ptr<DeadLetters> letters, std::string source, std::uint64_t number)
      : engine::Lane(std::move(source)), letters_(std::move(letters)), number_(number) {}

  void finish(std::span<const std::uint64_t>) override { end(true); }
  void drop(std::uint64_t) override { end(true); }
  void failed(std::uint64_t) override { end(false); }
  Begun begin(std::uint64_t, bool) override { return Begun::written; }
  bool is_closed() const override { return false; }
  bool is_dead_letter() const override { return true; }
  unsigned deliveries(std::uint64_t) const override { return 0; }

 private:
  void end(bool handled) {
    if (!ended_.exchange(true)) letters_->ended(number_, handled);
  }

  std::shared_ptr<DeadLetters> letters_;
  std::uint64_t number_;
  std::atomic<bool> ended_ = false;
};

DeadLetters::DeadLetters(Context& context, Workers& workers)
    : context_(context),
      workers_(workers),
      files_(wire::dead_letters_dir(context.root, context.name), context.id, context.keyring(), context.durable) {}

bool DeadLetters::add(const Message::State& message, std::string_view code, const std::string& text) {
  const wire::DeadLetter letter{.is_event = message.is_event,
                                .source = message.source(),
                                .sequence = message.sequence,
                                .timestamp_ms = message.timestamp_ms,
                                .deliveries = message.deliveries,
                                .error_code = std::string(code),
                                .error_message = wire::readable_characters(text, wire::limits::max_error_characters),
                                .died_at_ms = fs::unix_ms()};
  const segment::MemorySource held(message.view.bytes());
  const segment::Source& payload = message.large == nullptr ? held : message.large->whole();
  std::string why = "there is no room for it: it is tried again";
  std::string_view counter = core::counters::dead_letters_without_room;
  try {
    const MutexLock guard(lock_);
    if (files_.add(letter, payload)) return true;
  } catch (const std::exception& error) {
    why = error.what();
    counter = core::counters::dead_letters_unwritten;
  }
  context_.stats.count(counter);
  context_.log.limited(LogLevel::error, "speed.messages", counter,
                       "a message of '" + letter.source + "' cannot be kept as a dead letter: " + why);
  return false;
}

void DeadLetters::look() {
  std::vector<std::uint64_t> retried;
  {
    if (!lock_.try_lock()) return;  // who reads does not wait for one that is being written
    const MutexLock guard(lock_, std::adopt_lock);
    start();
    if (!files_.changed()) return;
    for (const auto& one : files_.kept()) {
      if (one.name.state == LetterState::retry) retried.push_back(one.name.number);
    }
  }
  for (const std::uint64_t number : retried) {
    workers_.submit([self = shared_from_this(), number] { self->hand_on(number); });
  }
}

// What was being tried when the process ended is a letter as before.
void DeadLetters::start() {
  if (std::exchange(started_, true)) return;
  for (const auto& one : files_.kept()) {
    if (one.name.state != LetterState::trying) continue;
    context_.stats.count(core::counters::dead_letters_unfinished);
    files_.move(one.name.number, LetterState::trying, LetterState::letter);
  }
}

void DeadLetters::hand_on(std::uint64_t number) {
  try {
    fs::DeadLetterFiles::Letter letter;
    {
      const MutexLock guard(lock_);
      if (!files_.move(number, LetterState::retry, LetterState::trying)) return;
      letter = files_.read({number, LetterState::trying});
    }
    fs::Received received;
    received.header.type = letter.about.is_event ? wire::EnvelopeType::event : wire::EnvelopeType::message;
    received.header.sequence = letter.about.sequence;
    received.header.timestamp_ms = static_cast<std::uint64_t>(letter.about.timestamp_ms);
    received.payload = letter.payload;
    received.redelivered = true;
    deliver_(std::make_shared<Lane>(shared_from_this(), letter.about.source, number), received);
    context_.stats.count(core::counters::dead_letters_tried_again);
  } catch (const std::exception& error) {
    context_.stats.count(core::counters::dead_letters_unread);
    context_.log.limited(LogLevel::warning, "speed.messages", core::counters::dead_letters_unread,
                         "dead letter " + std::to_string(number) + " cannot be handed on: " + error.what());
    ended(number, false);
  }
}

void DeadLetters::ended(std::uint64_t number, bool handled) {
  try {
    const MutexLock guard(lock_);
    if (handled) return files_.remove({number, LetterState::trying});
    files_.move(number, LetterState::trying, LetterState::letter);
  } catch (const std::exception&) {
    context_.stats.count(core::counters::dead_letters_unfinished);
  }
}

}  // namespace speed::engine
