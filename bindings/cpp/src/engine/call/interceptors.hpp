// What a program runs around its calls and services.
// Threads: all methods may be called from any thread, unless said otherwise.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "speed/node.hpp"
#include "wire/mutex.hpp"

namespace speed::engine {

using CallInterceptors = std::shared_ptr<const std::vector<CallInterceptor>>;  // the first is the outermost

class Interceptors {
 public:
  // ConfigurationError for null.
  void add(CallInterceptor interceptor);
  // ConfigurationError for null, and once a service is there.
  void add(ServiceInterceptor interceptor);

  CallInterceptors around_calls() const;  // null: there are none
  std::shared_ptr<Service> around(std::shared_ptr<Service> service);

 private:
  std::atomic<bool> has_calls_ = false;
  mutable Mutex lock_;
  CallInterceptors calls_ SPEED_GUARDED_BY(lock_);
  std::vector<ServiceInterceptor> services_ SPEED_GUARDED_BY(lock_);  // the innermost first
  bool has_services_ SPEED_GUARDED_BY(lock_) = false;
};

// One call on its way through interceptors, and its outcome on the way back.
// Threads: one at a time.
class Passage {
 public:
  Passage(CallInterceptors interceptors, CallRequest request);  // null: there are none

  bool is_over() const { return is_over_; }  // one of them ended it: nothing is called
  const CallRequest& request() const { return request_; }  // what the last of them let through
  CallOutcome ended(CallOutcome outcome);  // what they make of it
  CallOutcome take() { return std::move(outcome_); }  // of one that is over

 private:
  void leave();

  const CallInterceptors interceptors_;
  CallRequest request_;
  std::vector<AfterCall> open_;
  CallOutcome outcome_;
  bool is_over_ = false;
};

}  // namespace speed::engine
