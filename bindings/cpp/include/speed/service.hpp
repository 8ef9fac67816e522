// Services: what a node offers to others, and how a call looks to them (RFC 7).
// Threads: `invoke` runs on worker threads, several calls at once; a Service guards what it shares.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "speed/error.hpp"
#include "speed/value.hpp"

namespace speed {

using Columns = std::vector<std::pair<std::string, Column>>;

// One call as a service sees it. `caller` is an authenticated node name; `request_id` is unique across callers.
struct Request {
  std::string service;
  Map arguments;
  std::string caller;
  std::string request_id;
  std::int64_t deadline_ms = 0;  // Unix time
  std::optional<std::string> traceparent;
  bool is_redelivered = false;
  std::stop_token stop = {};

  // An earlier process of this name may have run it already; only where the service is registered as idempotent.
  bool redelivered() const noexcept { return is_redelivered; }
  // Nobody waits for the answer any more: the caller withdrew the call or is gone, or its deadline passed.
  bool cancelled() const noexcept { return stop.stop_requested(); }
  std::stop_token cancellation() const { return stop; }
  // Ends the service if so, as its answer should then be.
  void throw_if_cancelled() const {
    if (cancelled()) throw CallWithdrawnError(service + ": the call was withdrawn", {{"phase", "running"}});
  }

  // The argument of that name as a T; InvalidArgumentsError names it when it is missing or of another kind.
  template <class T>
  T get(std::string_view name) const {
    const Value* const value = arguments.find(name);
    if (value == nullptr) throw InvalidArgumentsError(service + ": missing argument '" + std::string(name) + "'");
    if constexpr (std::is_same_v<T, Value>) {
      return *value;
    } else {
      try {
        return value->as<T>();
      } catch (const InvalidArgumentsError& error) {
        throw InvalidArgumentsError(service + ": argument '" + std::string(name) + "': " + error.what(),
                                    {{"argument", name}});
      }
    }
  }

  // The arguments that are columns, of equally many rows; InvalidArgumentsError when they differ.
  Columns columns() const;

  // Likewise, but `otherwise` when it is missing.
  template <class T>
  T get_or(std::string_view name, T otherwise) const {
    return arguments.find(name) == nullptr ? otherwise : get<T>(name);
  }

  // InvalidArgumentsError names an argument that is none of these.
  void allow_only(std::initializer_list<std::string_view> names) const {
    for (const Member& member : arguments) {
      const auto* const given = member.key.get_if<std::string>();
      if (given != nullptr && std::find(names.begin(), names.end(), *given) == names.end()) {
        throw InvalidArgumentsError(service + ": there is no argument '" + *given + "'", {{"argument", *given}});
      }
    }
  }
};

// What a service answers: a result, or an `spc` code of codes.json with a message and details.
struct Response {
  Value result;
  bool failed = false;
  std::string error_code;  // one that is empty reads as INTERNAL_ERROR
  std::string error_message;
  Map details;

  Response() = default;
  Response(Value value) : result(std::move(value)) {}
  static Response error(std::string_view code, std::string message, Map details = {}) {
    Response response;
    response.failed = true;
    response.error_code = code;
    response.error_message = std::move(message);
    response.details = std::move(details);
    return response;
  }
  bool ok() const noexcept { return !failed && error_code.empty(); }
};

// The RFC's interface. An InvalidArgumentsError answers INVALID_ARGUMENTS, any other exception EXECUTION_FAILED.
class Service {
 public:
  virtual ~Service() = default;
  virtual Response invoke(const Request& request) = 0;
};

// A function as a service.
using ServiceFunction = std::function<Response(const Request&)>;

// A function of one row as a service of batches, and of single calls, which it answers as before: columns among the
// arguments are handed to it row by row, and its results make a column. The first row that fails is named.
ServiceFunction by_row(ServiceFunction row);

}  // namespace speed
