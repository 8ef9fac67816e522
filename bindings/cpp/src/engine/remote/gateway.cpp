#include "engine/remote/gateway.hpp"

#include "engine/call/calling.hpp"
#include "wire/names/harmless.hpp"
#include "wire/names/names.hpp"

namespace speed::engine::across {

namespace {

template <class Failure>
std::exception_ptr made(const std::string& text) {
  return std::make_exception_ptr(Failure(text));
}

// The error of a code that is none of a call; null for every other code.
std::exception_ptr delivery_error(const std::string& code, const std::string& text) {
  if (code == "UNKNOWN_NODE") return made<UnknownNodeError>(text);
  if (code == "HOST_AWAY") return made<HostAwayError>(text);
  if (code == "NODE_LEFT") return made<NodeLeftError>(text);
  if (code == "INBOX_FULL") return made<InboxFullError>(text);
  if (code == "PAYLOAD_TOO_LARGE") return made<PayloadTooLargeError>(text);
  if (code == "UNSERIALISABLE") return made<UnserialisableError>(text);
  if (code == "NOT_ACKNOWLEDGED") return made<NotAcknowledgedError>(text);
  if (code == "STORAGE") return made<StorageError>(text);
  if (code == "SEGMENT_STORE") return made<SegmentStoreError>(text);
  if (code == "DELIVERY") return made<DeliveryError>(text);
  if (code == "INVALID_NAME") return made<InvalidNameError>(text);
  return nullptr;
}

std::string text_of(const Map& answer, const char* field) {
  const Value* const value = answer.find(field);
  const std::string* const text = value == nullptr ? nullptr : value->get_if<std::string>();
  return text == nullptr ? std::string() : *text;
}

Map details_of(const Map& answer) {
  const Value* const value = answer.find("details");
  const Map* const details = value == nullptr ? nullptr : value->get_if<Map>();
  return details == nullptr ? Map() : *details;
}

// `error` says whether the service ran, where the gateway does.
std::exception_ptr with_execution(const std::exception_ptr& error, const Map& details) {
  const std::string told = text_of(details, "execution");
  try {
    std::rethrow_exception(error);
  } catch (Error& known) {
    if (told == "not begun") known.set_execution(Execution::not_begun);
    if (told == "may have run") known.set_execution(Execution::may_have_run);
  }
  return error;
}

// What it says begins with the node once, whoever said it.
std::exception_ptr error_of(const Map& answer, const std::string& target) {
  const std::string node = target.substr(0, target.find('@')) + ": ";
  std::string said = text_of(answer, "errorMessage");
  if (said.starts_with(node)) said.erase(0, node.size());
  const std::string code = text_of(answer, "errorCode");
  const std::string text = target + ": " + wire::harmless(said);
  const Map details = details_of(answer);
  const std::exception_ptr delivery = delivery_error(code, text);
  return with_execution(delivery ? delivery : call_error(code, text, details), details);
}

CallOptions within(Seconds timeout) {
  CallOptions options;
  options.timeout = timeout;
  return options;
}

// What the gateway answers to `operation`, which stands for `service` at `target`.
Value answered(Runtime& node, const std::string& operation, const Map& arguments, const CallOptions& options,
               const std::string& target, const std::string& service) {
  try {
    core::Outcome answer = carried(engine::call(node, wire::gateway_node, operation, arguments, options), target);
    if (const auto* const error = std::get_if<std::exception_ptr>(&answer)) std::rethrow_exception(*error);
    return std::get<Value>(std::move(answer));
  } catch (const Error&) {
    std::rethrow_exception(failed(std::current_exception(), target, service));
  }
}

}  // namespace

Map asking(const std::string& target, const std::string& service, const Map& arguments) {
  wire::check_remote(target);
  return {{"node", target}, {"service", service}, {"arguments", arguments}};
}

Value call(Runtime& node, const std::string& target, const std::string& service, const Map& arguments,
           const CallOptions& options) {
  return answered(node, "call", asking(target, service, arguments), options, target, service);
}

core::Outcome carried(core::Outcome answer, const std::string& target) {
  const Value* const value = std::get_if<Value>(&answer);
  if (value == nullptr) return answer;
  const Map* const told = value->get_if<Map>();
  const std::string status = told == nullptr ? std::string() : text_of(*told, "status");
  if (status == "ERROR") return error_of(*told, target);
  if (status == "SUCCESS") return told->find("result") == nullptr ? Value() : *told->find("result");
  return made<InternalError>("the node '" + std::string(wire::gateway_node) +
                             "' answers what no gateway does: stop it, and start speedd");
}

std::exception_ptr failed(const std::exception_ptr& thrown, const std::string& target, const std::string& service) {
  try {
    std::rethrow_exception(thrown);
  } catch (UnknownNodeError& error) {
    error.set_called(target, service);
    if (std::string_view(error.what()).starts_with(target)) return thrown;  // the node there, not the gateway
    UnknownNodeError missing("no speedd of this root joins hosts: add [hosts] to its configuration (" +
                             std::string(error.what()) + ")");
    missing.set_execution(Execution::not_begun);
    missing.set_called(target, service);
    return std::make_exception_ptr(missing);
  } catch (Error& error) {
    error.set_called(target, service);
  } catch (...) {  // nothing that knows of calls
  }
  return thrown;
}

Value ask(Runtime& node, const std::string& target, const char* operation, Seconds timeout) {
  wire::check_remote(target);
  return answered(node, operation, {{"node", target}}, within(timeout), target, operation);
}

void send(Runtime& node, const std::string& target, Array messages, const SendOptions& options) {
  wire::check_remote(target);
  try {
    const Map asked{{"node", target}, {"messages", std::move(messages)}, {"ack", options.ack}};
    answered(node, "send", asked, within(options.timeout), target, "send");
  } catch (const CallTimeoutError& error) {
    throw NotAcknowledgedError(target + ": " + error.what());
  }
}

}  // namespace speed::engine::across
