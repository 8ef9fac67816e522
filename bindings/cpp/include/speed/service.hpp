// Services: what a node offers to others, and how a call looks to them (RFC 7).
// Threads: `invoke` runs on worker threads, several calls at once; a Service guards what it shares.
#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "speed/conversion.hpp"
#include "speed/error.hpp"
#include "speed/export.hpp"
#include "speed/names.hpp"
#include "speed/stream.hpp"
#include "speed/value.hpp"

namespace speed {

using Columns = std::vector<std::pair<std::string, Column>>;

// One call as a service sees it: `request.get<int>("amount")`. `caller` is an authenticated node name; `request_id` is
// unique across callers.
struct SPEED_EXPORT Request {
  std::string service;
  Map arguments;
  std::string caller;
  std::string request_id;
  std::int64_t deadline_ms = 0;  // Unix time
  std::optional<std::string> traceparent;
  bool is_redelivered = false;
  std::stop_token stop = {};
  std::shared_ptr<StreamChannel> channel = {};  // of a call with a stream; what is above it uses it
  std::string caller_identity = {};  // the fingerprint that the caller proved; empty where either node has no identity

  // An earlier process of this name may have run it already; only where the service is registered as idempotent.
  bool redelivered() const noexcept { return is_redelivered; }
  // Nobody waits for the answer any more: the caller withdrew the call or is gone, or its deadline passed.
  bool cancelled() const noexcept { return stop.stop_requested(); }
  // The same for what takes one: a std::condition_variable_any, a std::stop_callback, a call that the service makes
  // (CallOptions::stop).
  std::stop_token stop_token() const { return stop; }
  // Ends the service if so, as its answer should then be.
  void throw_if_cancelled() const {
    if (cancelled()) throw CallWithdrawnError(service + ": the call was withdrawn", {{"phase", "running"}});
  }

  // Tells a caller that wants to know (CallOptions::on_progress) how far this is; costs next to nothing if none does.
  // `done` and `total` are of one unit, from 0; of `note` 200 characters travel. Never waits, and may be lost: the caller
  // gets the newest, some twenty a second, and always one whose `done` is `total`. ConfigurationError for other numbers.
  void progress(double done, std::optional<double> total = {}, std::string note = {}) const;

  // The argument of that name as a T, exactly: `request.get<int>("amount")`; conversion.hpp lists what T may be.
  // InvalidArgumentsError names it when it is missing, of another kind, or has no exact T. A std::optional is empty where
  // the argument is missing or nil.
  template <class T>
  T get(std::string_view name) const {
    const Value* const value = arguments.find(name);
    if (value == nullptr) {
      if constexpr (requires(T empty) { empty = std::nullopt; }) return {};
      throw InvalidArgumentsError(service + ": missing argument '" + std::string(name) + "'", {{"argument", name}});
    }
    try {
      return value->as<T>();
    } catch (const ConversionError& error) {
      throw InvalidArgumentsError(service + ": argument '" + std::string(name) + "': " + error.what(),
                                  {{"argument", name}});
    }
  }

  // The arguments that are columns, of equally many rows; InvalidArgumentsError when they differ.
  Columns columns() const;

  // Likewise, but `otherwise` when it is missing.
  template <class T>
  T get_or(std::string_view name, T otherwise) const {
    return arguments.find(name) == nullptr ? otherwise : get<T>(name);
  }
  std::string get_or(std::string_view name, const char* otherwise) const {
    return get_or(name, std::string(otherwise));
  }

  // InvalidArgumentsError names an argument that is none of these.
  void allow_only(std::initializer_list<Name> names) const {
    for (const Member& member : arguments) {
      const auto* const given = member.key.get_if<std::string>();
      if (given != nullptr && std::ranges::find(names, *given, &Name::text) == names.end()) {
        throw InvalidArgumentsError(service + ": there is no argument '" + *given + "'", {{"argument", *given}});
      }
    }
  }
};

namespace detail {

// JSON Schema of the form in which a T travels.
template <class T>
Map schema_of() {
  const auto text = [](const char* form) { return Map{{"type", "string"}, {"format", form}}; };
  if constexpr (std::same_as<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (Integer<T>) {
    return {{"type", "integer"}};
  } else if constexpr (std::floating_point<T>) {
    return {{"type", "number"}};
  } else if constexpr (std::same_as<T, std::string>) {
    return {{"type", "string"}};
  } else if constexpr (std::same_as<T, Bytes> || std::same_as<T, ByteView>) {
    return {{"type", "string"}, {"contentEncoding", "base64"}};
  } else if constexpr (std::same_as<T, Column>) {
    return {{"type", "array"}, {"format", "column"}};
  } else if constexpr (std::same_as<T, Array>) {
    return {{"type", "array"}};
  } else if constexpr (std::same_as<T, Map>) {
    return {{"type", "object"}};
  } else if constexpr (std::same_as<T, std::chrono::year_month_day>) {
    return text("date");
  } else if constexpr (requires(T time) { time.subseconds(); }) {
    return text("time");
  } else if constexpr (requires { typename T::clock; }) {
    return text(std::same_as<typename T::clock, std::chrono::system_clock> ? "date-time" : "local-date-time");
  } else if constexpr (requires { typename T::rep; }) {
    return {{"type", "integer"}, {"format", "microseconds"}};
  } else if constexpr (requires(T value) { value.value_or(*value); }) {
    return {{"anyOf", Array{schema_of<typename T::value_type>(), Map{{"type", "null"}}}}};
  } else if constexpr (requires { typename T::mapped_type; }) {
    return {{"type", "object"}, {"additionalProperties", schema_of<typename T::mapped_type>()}};
  } else if constexpr (requires(T list) { list.push_back(list.front()); }) {
    return {{"type", "array"}, {"items", schema_of<typename T::value_type>()}};
  } else {
    return {};
  }
}

}  // namespace detail

// What a service is, for people and programs (Node::describe, `speed describe`). Declared parameters are checked before the
// service is invoked: InvalidArgumentsError names one that is unknown, missing, or of another kind.
//
//   node.serve("tax", tax, {.description = ServiceDescription("What is due on an amount.")
//                                              .parameter<double>("amount")
//                                              .optional_parameter<std::string>("region")
//                                              .result<double>()});
class SPEED_EXPORT ServiceDescription {
 public:
  // `summary` is one line; `version` is the service's own.
  explicit ServiceDescription(std::string summary = {}, std::string version = {})
      : summary_(std::move(summary)), version_(std::move(version)) {}

  // T as conversion.hpp lists them; ConfigurationError for a name that is empty or stands twice.
  template <class T>
  ServiceDescription& parameter(const std::string& name) {
    return add(name, detail::schema_of<T>(), true, [](const Value& value) { (void)value.as<T>(); });
  }
  template <class T>
  ServiceDescription& optional_parameter(const std::string& name) {
    return add(name, detail::schema_of<T>(), false, [](const Value& value) { (void)value.as<T>(); });
  }
  // Says that the service takes no arguments, where no parameter is declared.
  ServiceDescription& no_parameters() {
    declares_ = true;
    return *this;
  }
  template <class T>
  ServiceDescription& result() {
    result_ = detail::schema_of<T>();
    return *this;
  }
  // Takes columns, one value for each row: a column is not checked by what is declared for a value.
  ServiceDescription& columns() {
    columns_ = true;
    return *this;
  }

  // As it travels, for a service of that name; parameters and result stay away where they are too large.
  Map as_map(const std::string& name, bool idempotent) const;
  // InvalidArgumentsError; nothing where no parameters are declared.
  void check(const Request& request) const;
  bool declares_parameters() const noexcept { return declares_; }

 private:
  struct Parameter {
    std::string name;
    Map schema;
    bool required;
    std::function<void(const Value&)> check;
  };
  ServiceDescription& add(const std::string& name, Map schema, bool required, std::function<void(const Value&)> check);

  std::string summary_, version_;
  std::vector<Parameter> parameters_;
  std::optional<Map> result_;
  bool declares_ = false;
  bool columns_ = false;
};

// What a service answers: a result, which whatever makes a Value is, or an error with a message and
// details: an `spc` code of codes.json, or a code of its own, A to Z, then also 0 to 9 and _, at most 64 in all. The caller
// gets that in an ApplicationError. Another code is a failure of the service. A map needs no name: `return {{"tax", amount * 0.18}};`
struct SPEED_EXPORT Response {
  Value result;
  bool failed = false;
  std::string error_code;
  std::string error_message;
  Map details;

  Response() = default;
  Response(Value value) : result(std::move(value)) {}
  Response(std::initializer_list<Member> members) : result(Map(members)) {}
  template <class T>
    requires(std::convertible_to<T, Value> && !std::same_as<std::remove_cvref_t<T>, Value> &&
             !std::same_as<std::remove_cvref_t<T>, Response>)
  // NOLINTNEXTLINE(bugprone-forwarding-reference-overload): the requirement leaves out copies
  Response(T&& result_of_any_kind) : result(std::forward<T>(result_of_any_kind)) {}
  //   return Response::error("OUT_OF_STOCK", "none left", {{"article", 7}});
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

// The RFC's interface. An InvalidArgumentsError that the service or `Request::get` throws answers INVALID_ARGUMENTS, an
// ApplicationError its code, any other exception EXECUTION_FAILED; so does whatever ended a call that the service made: no
// argument of this call was wrong.
class SPEED_EXPORT Service {
 public:
  virtual ~Service() = default;
  virtual Response invoke(const Request& request) = 0;
};

// The names of the RFC.
using SpeedRequest = Request;
using SpeedResponse = Response;
using SpeedService = Service;

// A function as a service.
using ServiceFunction = std::function<Response(const Request&)>;

// A function that gives items to its caller, takes some of it, or both. What it returns follows its items.
using StreamFunction = std::function<Response(const Request&, ServedStream&)>;
enum class ItemsOf : std::uint8_t { service, caller, both };  // whose items there are

// Runs around a service: it invokes `proceed` with the request, or one like it, and returns what that returns, or another
// response. What the service throws, `proceed` throws. One that does not invoke it answers by itself.
using ServiceInterceptor = std::function<Response(const Request& request, const ServiceFunction& proceed)>;

// A function of one row as a service of batches, and of single calls, which it answers as before: columns among the
// arguments are handed to it row by row, and its results make a column, of the kind of the first that is not nil: integers,
// floats, booleans, text, bytes or instants. Maps make a column for each key. The first row that fails is named, whatever
// it threw. A decimal arrives as text, `-12.50`. `kind` is that of the results where the first does not tell it: integers as
// float64, text or integers as decimals: decimal(38, 18), or with the scale that the digits need where that does not hold them.
SPEED_EXPORT ServiceFunction by_row(ServiceFunction row, std::optional<Column::Kind> kind = std::nullopt);

}  // namespace speed
