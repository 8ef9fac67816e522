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

Value sum(const Value& one, const Value& other) {
  const bool whole = one.get_if<double>() == nullptr && other.get_if<double>() == nullptr;
  if (whole) return one.as<std::int64_t>() + other.as<std::int64_t>();
  return one.as<double>() + other.as<double>();
}

Response sleep_for(const Request& request) {
  const Value seconds = request.get<Value>("seconds");
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds.as<double>()));
  return seconds;
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
  cancelled.wait_for(guard, request.cancellation(), std::chrono::duration<double>(seconds), [] { return false; });
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
  node.serve("add", [](const Request& request) -> Response {
    return sum(request.get<Value>("a"), request.get<Value>("b"));
  });
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
  node.serve("forbidden", [](const Request&) -> Response { return Value("never"); },
             {.allow = {{"nobody-1"}}});
  node.serve("size", [](const Request& request) -> Response {
    return Value(request.get<speed::Bytes>("data").size());
  });
}

}  // namespace agent
