#include "options.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

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

void take_names(const nb::dict& options, const char* name, Names& into) {
  std::vector<std::string> names;
  take(options, name, names);
  into = std::move(names);
}

// Whether a choice of words is this one.
void take_word(const nb::dict& options, const char* name, const char* word, bool& into) {
  std::string chosen;
  take(options, name, chosen);
  into = chosen == word;
}

void take_on_error(const nb::dict& options, const char* name, OnError& into) {
  std::string chosen;
  take(options, name, chosen);
  into = chosen == "retry" ? OnError::retry : chosen == "drop" ? OnError::drop : OnError::dead_letter;
}

void take_limits(const nb::dict& options, const char* name, segment::Limits& into) {
  nb::dict limits;
  take(options, name, limits);
  into = segment_limits(limits);
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

NodeOptions node_options(const nb::dict& given) {
  NodeOptions options;
  // generated from registry_spec/options.json by scripts/generate
  take(given, "root", options.root);
  take(given, "key", options.key);
  take_names(given, "fabrics", options.fabrics);
  take_names(given, "allow", options.allow);
  take_seconds(given, "lease_seconds", options.lease);
  take_seconds(given, "heartbeat_seconds", options.heartbeat);
  take(given, "workers", options.workers);
  take_word(given, "durability", "disk", options.durable);
  take(given, "ephemeral", options.ephemeral);
  take(given, "starting", options.starting);
  take_word(given, "bell", "polling", options.polling);
  take(given, "namespace", options.name_space);
  take_names(given, "accept_namespaces", options.accept_name_spaces);
  take_seconds(given, "spin_seconds", options.spin);
  take_on_error(given, "on_error", options.on_error);
  take(given, "max_deliveries", options.max_deliveries);
  take(given, "max_lane_bytes", options.max_lane_bytes);
  take(given, "max_open_files", options.max_open_files);
  take(given, "identity", options.identity);
  take_limits(given, "segment_limits", options.segment_limits);
  // end of what is generated
  return options;
}

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
