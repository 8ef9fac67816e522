#include "services.hpp"

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <thread>
#include <utility>

namespace agent {

using speed::Request;
using speed::Response;
using speed::Value;

namespace {

Value sum(const Request& request) {
  const auto is_float = [&](const char* name) { return request.get<Value>(name).get_if<double>() != nullptr; };
  if (!is_float("a") && !is_float("b")) return request.get<std::int64_t>("a") + request.get<std::int64_t>("b");
  return request.get<double>("a") + request.get<double>("b");
}

Response sleep_for(const Request& request) {
  std::this_thread::sleep_for(std::chrono::duration<double>(request.get<double>("seconds")));
  return request.get<Value>("seconds");
}

void append_line(const std::string& path, std::int64_t number) {
  std::ofstream file(path, std::ios::app);
  file << std::to_string(number) + "\n" << std::flush;  // one write
  if (!file) throw std::runtime_error(path + " cannot be written");
}

// Whether it was cancelled within so many seconds.
bool wait_for_cancellation(const Request& request, double seconds) {
  std::mutex lock;
  std::condition_variable_any cancelled;
  std::unique_lock guard(lock);
  cancelled.wait_for(guard, request.stop_token(), std::chrono::duration<double>(seconds), [] { return false; });
  return request.cancelled();
}

// What ran stays in a file, whoever is killed afterwards.
Response note(const Request& request) {
  append_line(request.get<std::string>("file"), request.get<std::int64_t>("n"));
  const double seconds = request.get_or<double>("seconds", 0.0);
  const bool is_cancelled = seconds > 0 && wait_for_cancellation(request, seconds);
  if (is_cancelled && request.get_or<bool>("quits", false)) request.throw_if_cancelled();
  return Value(is_cancelled);
}

// One row: a number, or one of the mistakes that a row can make.
Response row(const Request& request) {
  const auto give = request.get<std::string>("give");
  if (give == "refuse") throw speed::InvalidArgumentsError("refused", {{"why", "asked"}});
  if (give == "fail") throw std::runtime_error("asked to fail");
  if (give == "code") return Response::error("OUT_OF_STOCK", "asked", {{"why", "asked"}});
  if (give == "one") return Value(1);
  if (give == "half") return Value(2.5);
  if (give == "huge") return Value(std::uint64_t{1} << 63);
  return give == "text" ? Value("t") : Value();
}

using Day = std::chrono::year_month_day;

Response due(const Request& request) {
  std::vector<Day> found;
  const std::chrono::sys_days day(request.get<Day>("day"));
  const auto days = request.get<std::int64_t>("days");
  for (std::int64_t number = 1; number <= request.get_or<std::int64_t>("times", 1); ++number) {
    found.emplace_back(day + std::chrono::days(days * number));
  }
  return Value(found);
}

Response numbers(const Request& request, speed::ServedStream& out) {
  const auto count = request.get<std::int64_t>("count");
  for (std::int64_t number = 0; number < count; ++number) out.write(number);
  return "over";
}

Response total(const Request& /*request*/, speed::ServedStream& in) {
  std::int64_t sum = 0;
  while (const std::optional<Value> item = in.read()) sum += item->as<std::int64_t>();
  return sum;
}

Response doubled(const Request& /*request*/, speed::ServedStream& stream) {
  while (const std::optional<Value> item = stream.read()) stream.write(2 * item->as<std::int64_t>());
  return {};
}

// Whoever reads it goes early; the file tells that it ended.
Response endless(const Request& request, speed::ServedStream& out) {
  try {
    for (std::int64_t number = 0;; ++number) out.write(number);
  } catch (const speed::CallWithdrawnError&) {
    append_line(request.get<std::string>("file"), 1);
    throw;
  }
}

Response steps(const Request& request) {
  const auto count = request.get<std::int64_t>("count");
  for (std::int64_t step = 1; step <= count; ++step) {
    request.progress(static_cast<double>(step), static_cast<double>(count), "counting");
  }
  return count;
}

void serve_streams(speed::Node& node) {
  node.serve_stream("numbers", numbers);
  node.serve_stream("total", total, speed::ItemsOf::caller);
  node.serve_stream("double", doubled, speed::ItemsOf::both);
  node.serve_stream("endless", endless);
  node.serve("steps", steps);
}

}  // namespace

void Sequence::add(std::int64_t number) {
  const std::lock_guard guard(lock_);
  seen_.emplace_back(number);
}

speed::Array Sequence::take() {
  const std::lock_guard guard(lock_);
  return std::exchange(seen_, {});
}

void serve(speed::Node& node) {
  auto sequence = std::make_shared<Sequence>();
  node.serve("echo", [](const Request& request) -> Response { return request.get<Value>("data"); });
  node.serve("add", [](const Request& request) -> Response { return sum(request); });
  node.serve("due", due,
             {.description = speed::ServiceDescription("Days on which something is due.")
                                 .parameter<Day>("day")
                                 .parameter<std::int64_t>("days")
                                 .optional_parameter<std::int64_t>("times")
                                 .result<std::vector<Day>>()});
  node.serve("sleep", sleep_for);
  node.serve("note", note);
  node.serve("fail", [](const Request& request) -> Response {
    throw std::runtime_error(request.get_or<std::string>("message", "asked to fail"));
  });
  node.serve("error", [](const Request& request) -> Response {
    return Response::error(request.get<std::string>("code"), "asked", {{"why", "asked"}});
  });
  node.serve("sequence", [sequence](const Request& request) -> Response {
    const auto number = request.get<std::int64_t>("n");
    sequence->add(number);
    return Value(number);
  });
  node.serve("sequence_seen", [sequence](const Request&) -> Response { return Value(sequence->take()); });
  node.serve("traceparent", [](const Request& request) -> Response {
    return request.traceparent ? Value(*request.traceparent) : Value();
  });
  node.serve("forbidden", [](const Request&) -> Response { return Value("never"); }, {.allow = {{"nobody-1"}}});
  node.serve("size",
             [](const Request& request) -> Response { return Value(request.get<speed::Bytes>("data").size()); });
  node.serve("relay", [&node](const Request& request) -> Response {
    return node.call(request.get<std::string>("node_name"), request.get<std::string>("service"),
                     request.get<speed::Map>("arguments"));
  });
  node.serve("who", [](const Request& request) -> Response {
    return Value(speed::Array{request.caller, request.caller_identity});
  });
  node.serve("rows", speed::by_row(row));
  serve_streams(node);
}

}  // namespace agent
