#include "services.hpp"

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
