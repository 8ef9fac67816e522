// Python code that the core runs: services and handlers. Each takes the interpreter lock on the thread it is run on.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "gil.hpp"
#include "speed/node.hpp"

namespace speed::python {

namespace nb = nanobind;

// Tells a Python service that nobody waits for its answer any more (S-16).
class Cancellation {
 public:
  explicit Cancellation(std::stop_token token) : token_(std::move(token)) {}
  Cancellation(Cancellation&&) = default;
  Cancellation(const Cancellation&) = delete;
  ~Cancellation();

  bool is_set() const { return token_.stop_requested(); }
  bool wait(std::optional<double> timeout) const;  // whether it is set then
  void call_when_set(nb::handle hook);             // which must be brief; now, if it is
  Given& given() { return given_; }

 private:
  using Hook = std::stop_callback<std::function<void()>>;
  std::stop_token token_;
  Given given_;
  std::vector<std::unique_ptr<Hook>> hooks_;
};

// `answer(service, arguments, caller, request_id, deadline_ms, traceparent, redelivered, cancellation, channel)` gives
// (result, code, message, details); it raises nothing. One that `is_plain` is called as `answer(arguments, caller, traceparent)`.
// Bytes in the arguments that `viewed` names are memoryviews.
class PythonService : public Service {
 public:
  PythonService(Kept answer, bool is_plain, std::vector<std::string> viewed)
      : answer_(std::move(answer)), is_plain_(is_plain), viewed_(std::move(viewed)) {}
  Response invoke(const Request& request) override;

 private:
  nb::tuple arguments_of(const Request& request) const;
  nb::object dict_of(const Map& arguments) const;

  Kept answer_;
  bool is_plain_;
  std::vector<std::string> viewed_;
};

// `handle(received, data, source, sequence, timestamp_ms, redelivered, deliveries)`.
Node::MessageHandler message_handler(Kept handle);

// `handle(batch)`: a list of what the handler of a message gets; it gives (place, text) pairs of those to refuse.
Node::BatchHandler batch_handler(Kept handle);

// `handle(fields)`: a registry entry as a dict.
Node::NodeHandler node_handler(Kept handle);

// `handle(error)`.
Node::LostHandler lost_handler(Kept handle);

// `write(level, logger, text)`, a level being that of Python's logging.
void log_to(nb::handle write);

nb::object to_object(const NodeInfo& info);
// What `handle` of a message gets; `data` of a large one has an empty payload.
nb::object to_tuple(const Message& message);

}  // namespace speed::python
