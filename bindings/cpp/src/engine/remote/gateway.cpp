// Nodes of other hosts, as the gateway of this root is asked for them.
#include "engine/call/calling.hpp"
#include "engine/link/publishing.hpp"
#include "engine/remote/peer.hpp"
#include "engine/span.hpp"
#include "fs/clock.hpp"
#include "wire/message/message.hpp"
#include "wire/names/harmless.hpp"
#include "wire/names/names.hpp"

namespace speed::engine {

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
  const std::string execution = text_of(details, "execution");
  try {
    std::rethrow_exception(error);
  } catch (Error& known) {
    if (execution == "not begun") known.set_execution(Execution::not_begun);
    if (execution == "may have run") known.set_execution(Execution::may_have_run);
  }
  return error;
}

// What it says begins with the node once, whoever said it.
std::exception_ptr error_of(const Map& answer, const std::string& target) {
  const std::string node = target.substr(0, target.find('@')) + ": ";
  std::string message = text_of(answer, "errorMessage");
  if (message.starts_with(node)) message.erase(0, node.size());
  const std::string code = text_of(answer, "errorCode");
  const std::string text = target + ": " + wire::harmless(message);
  const Map details = details_of(answer);
  const std::exception_ptr delivery = delivery_error(code, text);
  return with_execution(delivery ? delivery : call_error(code, text, details), details);
}

CallOptions within(Seconds timeout) {
  CallOptions options;
  options.timeout = timeout;
  return options;
}

// What the answer of the gateway to a question about `target` means.
core::Outcome carried(core::Outcome answer, const std::string& target) {
  const Value* const value = std::get_if<Value>(&answer);
  if (value == nullptr) return answer;
  const Map* const fields = value->get_if<Map>();
  const std::string status = fields == nullptr ? std::string() : text_of(*fields, "status");
  if (status == "ERROR") return error_of(*fields, target);
  if (status == "SUCCESS") return fields->find("result") == nullptr ? Value() : *fields->find("result");
  return made<InternalError>("the node '" + std::string(wire::gateway_node) +
                             "' answers what no gateway does: stop it, and start speedd");
}

// An error of the way to the gateway, as it is thrown.
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

class GatewayPeer final : public Peer {
 public:
  using Peer::Peer;

  Value call(const std::string& service, const Map& arguments, const CallOptions& options) const override {
    return answered(node_, "call", asking(service, arguments), options, name_, service);
  }

  void start(const std::string& service, const Map& arguments, const CallOptions& options,
             core::Completion completion) const override {
    const Duration timeout = duration_of("timeout", options.timeout);
    const Map wrapped = asking(service, arguments);
    try {
      start_call(node_, {wire::gateway_node, "call", wrapped, timeout, options.traceparent}, options.stop,
                 std::move(completion));
    } catch (const Error&) {
      std::rethrow_exception(failed(std::current_exception(), name_, service));
    }
  }

  core::Outcome outcome(core::Outcome answer) const override { return carried(std::move(answer), name_); }

  std::shared_ptr<StreamChannel> open_stream(const std::string& /*service*/, const Map& /*arguments*/,
                                             const CallOptions& /*options*/,
                                             const StreamOffer& /*offer*/) const override {
    throw ConfigurationError("'" + name_ + "' is no node of this host: streams and progress go to one");
  }

  std::string send(const Value& payload, const SendOptions& options) const override {
    const wire::MessageFields fields = node_.fields_of(options);
    hand_over({encoded(payload, fields, options)}, options);
    return fields.message_id;
  }

  void send_encoded(ByteView message, const SendOptions& options) const override {
    hand_over({Bytes(message.begin(), message.end())}, options);
  }

  // Some in a question.
  void send_all(const std::vector<Value>& payloads, const SendOptions& options) const override {
    const TimePoint deadline = fs::monotonic_now() + duration_of("timeout", options.timeout);
    Array messages;
    std::size_t bytes = 0;
    SendOptions rest = options;
    wire::MessageFields fields = node_.fields_of(options);
    for (const Value& payload : payloads) {
      node_.stamp(fields);
      messages.push_back(encoded(payload, fields, options));
      bytes += messages.back().get_if<Bytes>()->size();
      if (!is_full(messages.size(), bytes) && &payload != &payloads.back()) continue;
      rest.timeout = std::max(Duration::zero(), deadline - fs::monotonic_now());
      hand_over(std::exchange(messages, {}), rest);
      bytes = 0;
    }
  }

  std::string send_large(const segment::Source& /*payload*/, const SendOptions& /*options*/,
                         const Progress& /*progress*/) const override {
    throw NotAvailableError("what no envelope holds does not cross hosts: send it in parts");
  }

  void segment(std::optional<std::size_t> /*segment_size*/, double /*parity_rate*/) const override {
    throw NotAvailableError("payloads in segments do not cross hosts");
  }

  void ping(Seconds timeout) const override { question("ping", timeout); }

  Map discover(const char* operation, Seconds timeout) const override {
    const std::string_view wanted = operation;
    if (wanted == "SERVICES") return wire::checked_answer(operation, Map{{"services", question("services", timeout)}});
    if (wanted == "DESCRIBE") return wire::checked_answer(operation, Map{{"services", question("describe", timeout)}});
    return wire::checked_answer(operation, question(wanted == "INFO" ? "info" : "stats", timeout));
  }

 private:
  Map asking(const std::string& service, const Map& arguments) const {
    wire::check_remote(name_);
    return {{"node", name_}, {"service", service}, {"arguments", arguments}};
  }

  Value question(const char* operation, Seconds timeout) const {
    wire::check_remote(name_);
    return answered(node_, operation, {{"node", name_}}, within(timeout), name_, operation);
  }

  Value encoded(const Value& payload, const wire::MessageFields& fields, const SendOptions& options) const {
    wire::Buffer buffer;
    node_.encode(payload, fields, options.protection, buffer);
    return Bytes(buffer.view().begin(), buffer.view().end());
  }

  // NotAcknowledgedError where the other host does not say in time that it has them.
  void hand_over(Array messages, const SendOptions& options) const {
    wire::check_remote(name_);
    try {
      const Map arguments{{"node", name_}, {"messages", std::move(messages)}, {"ack", options.ack}};
      answered(node_, "send", arguments, within(options.timeout), name_, "send");
    } catch (const CallTimeoutError& error) {
      throw NotAcknowledgedError(name_ + ": " + error.what());
    }
  }
};

}  // namespace

PeerPtr gateway_peer(Runtime& node, const std::string& name) { return std::make_shared<const GatewayPeer>(node, name); }

}  // namespace speed::engine
