#include "engine/deliver/opening.hpp"

#include <algorithm>

#include "core/counters.hpp"
#include "fs/clock.hpp"
#include "speed/message_error.hpp"
#include "wire/names/harmless.hpp"

namespace speed::engine {

namespace {

constexpr Duration quiet_time = 60s;  // between two lines about messages that nobody gets

// What is signed, encrypted or held to a schema is the whole message, wherever its payload lies (M-16).
message::Opened open_large(const message::Guard& guard, const Message::State& message) {
  if (!guard.looks_at(message.view)) return guard.open(message.view, fs::unix_ms(), message.source());
  if (message.large->size() > wire::limits::max_payload_bytes) {
    const NotAvailableError error(
        "what no envelope holds is neither signed, encrypted nor described: send it in parts");
    guard.tell_refused(message.view, message.source(), error);
    throw error;
  }
  const ByteView whole = message.large->bytes();
  return guard.open(wire::MessageView(Bytes(whole.begin(), whole.end())), fs::unix_ms(), message.source());
}

bool refuse(Context& context, const Replies& replies, Message::State& message, std::string_view code,
            const std::string& text) {
  context.stats.count(core::counters::messages_refused);
  context.log.limited(LogLevel::warning, "speed.messages", code,
                      "a message of '" + message.source() + "' is refused: " + text);
  if (message.wants_answer.exchange(false)) replies.refuse(message, code, text);
  message.done();
  return false;
}

[[noreturn]] void wait(Context& context, const Message::State& message, const char* why) {
  context.log.limited(LogLevel::warning, "speed.messages", "trust",
                      "a message of '" + message.source() + "' waits: " + why);
  throw Unavailable(why);
}

// Behind a busy handler, or while nothing took it (M-7). For a dead letter somebody asked for another try.
bool expired(Context& context, const Replies& replies, Message::State& message) {
  if (message.view.ttl_seconds() <= 0 || message.lane->is_dead_letter()) return false;
  if (!message.view.is_expired(fs::unix_ms())) return false;
  context.stats.count(core::counters::messages_expired);
  context.log.limited(LogLevel::warning, "speed.messages", "messages_expired",
                      "a message of '" + message.source() + "' expired before it was handled", quiet_time);
  if (message.wants_answer.exchange(false)) {
    replies.refuse(message, "EXECUTION_FAILED", "the message expired before it was handled");
  }
  message.done();
  return true;
}

// Of a namespace that this node does not take (M-34).
bool is_of_others(Context& context, const Replies& replies, Message::State& message) {
  const std::string_view name_space = message.view.name_space();
  if (name_space == context.name_space || message.lane->is_dead_letter()) return false;
  const auto takes = [&](const std::string& one) { return one == "*" || one == name_space; };
  if (std::ranges::any_of(context.accept_name_spaces, takes)) return false;
  const std::string why = "namespace: '" + wire::harmless(name_space) + "' is not taken by '" + context.name + "'";
  context.stats.count(core::counters::messages_refused);
  context.log.limited(LogLevel::warning, "speed.messages", "namespace",
                      "a message of '" + message.source() + "' is refused: " + why, quiet_time);
  if (message.wants_answer.exchange(false)) replies.refuse(message, "INVALID_ARGUMENTS", "OTHER_NAMESPACE: " + why);
  message.done();
  return true;
}

}  // namespace

bool open_message(Context& context, const Replies& replies, Message::State& message) {
  if (expired(context, replies, message) || is_of_others(context, replies, message)) return false;
  if (context.guard == nullptr && !context.is_judge) return true;
  try {
    if (context.guard == nullptr) {
      message::check_unopened(message.view);
      return true;
    }
    message.opened = message.large == nullptr ? context.guard->open(message.view, fs::unix_ms(), message.source())
                                              : open_large(*context.guard, message);
    return true;
  } catch (const KeyUnavailableError& error) {
    throw Unavailable(error.what());
  } catch (const message::SchemasAway& error) {
    wait(context, message, error.what());
  } catch (const StorageError& error) {  // what must be audited does not happen unseen (M-31)
    wait(context, message, error.what());
  } catch (const MessageError& error) {
    return refuse(context, replies, message, "INVALID_ARGUMENTS", std::string(error.code()) + ": " + error.what());
  } catch (const WireError& error) {  // its text begins with the code
    return refuse(context, replies, message, "INVALID_ARGUMENTS", error.what());
  } catch (const std::exception& error) {
    return refuse(context, replies, message, "EXECUTION_FAILED", error.what());
  }
}

}  // namespace speed::engine
