#include "options.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "convert.hpp"
#include "speed/error.hpp"

namespace speed::python {

namespace {

template <class T>
void take(const nb::dict& options, const char* name, T& into) {
  const nb::handle value = PyDict_GetItemString(options.ptr(), name);
  if (!value.is_valid() || value.is_none()) return;
  try {
    into = nb::cast<T>(value);
  } catch (const nb::cast_error&) {
    throw WireError("BAD_MESSAGE", std::string(name) + ": has a type that does not fit");
  }
}

template <class T>
void take(const nb::dict& options, const char* name, std::optional<T>& into) {
  T value{};
  const nb::handle given = PyDict_GetItemString(options.ptr(), name);
  if (!given.is_valid() || given.is_none()) return;
  take(options, name, value);
  into = std::move(value);
}

void take_seconds(const nb::dict& options, const char* name, Seconds& into) {
  double seconds = into.count();
  take(options, name, seconds);
  into = Seconds(seconds);
}

std::map<std::string, Bytes> extensions_in(const nb::dict& options) {
  std::map<std::string, Bytes> extensions;
  std::map<std::string, nb::bytes> given;
  take(options, "extensions", given);
  for (const auto& [name, data] : given) {
    const auto* const begin = reinterpret_cast<const std::byte*>(data.c_str());
    extensions.emplace(name, Bytes(begin, begin + data.size()));
  }
  return extensions;
}

}  // namespace

segment::Limits segment_limits(const nb::dict& limits) {
  segment::Limits bounds;
  take(limits, "payload_bytes", bounds.payload_bytes);
  take(limits, "reconstructions", bounds.reconstructions);
  take(limits, "sender_reconstructions", bounds.sender_reconstructions);
  take(limits, "buffered_bytes", bounds.buffered_bytes);
  take(limits, "sender_buffered_bytes", bounds.sender_buffered_bytes);
  take(limits, "completions", bounds.completions);
  take(limits, "sender_completions", bounds.sender_completions);
  take_seconds(limits, "idle_seconds", bounds.idle);
  take_seconds(limits, "total_seconds", bounds.total);
  take_seconds(limits, "completion_seconds", bounds.completion);
  return bounds;
}

SendOptions send_options(const nb::dict& options, double timeout_seconds) {
  SendOptions settings;
  settings.timeout = Seconds(timeout_seconds);
  if (options.size() == 0) return settings;
  take(options, "topic", settings.topic);
  take(options, "priority", settings.priority);
  take(options, "ttl_seconds", settings.ttl_seconds);
  take(options, "correlation_id", settings.correlation_id);
  take(options, "causality_parent", settings.causality_parent);
  take(options, "traceparent", settings.traceparent);
  take(options, "labels", settings.labels);
  take(options, "baggage", settings.baggage);
  settings.extensions = extensions_in(options);
  return settings;
}

}  // namespace speed::python
