// The traceparent under which the present thread runs a service or handler (S-13).
#pragma once

#include <optional>
#include <string>

namespace speed::engine {

inline thread_local std::optional<std::string> current_traceparent;

// Sets it for one scope.
class TraceScope {
 public:
  explicit TraceScope(const std::optional<std::string>& traceparent) : before_(std::move(current_traceparent)) {
    current_traceparent = traceparent;
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  ~TraceScope() { current_traceparent = std::move(before_); }

 private:
  std::optional<std::string> before_;
};

}  // namespace speed::engine
