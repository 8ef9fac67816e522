// Calls that are tried again: what was not begun always, what may have run only where it may run twice (S-41).
// Threads: all methods may be called from any thread; the node outlives it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/family.hpp"
#include "engine/context.hpp"
#include "speed/node.hpp"
#include "wire/mutex.hpp"

namespace speed::engine {

using CallGiven = std::function<void(CallOutcome)>;

// The attempts of one call.
// Threads: one at a time.
class Attempts {
 public:
  // `options` have a Retry. ConfigurationError for one that means nothing.
  Attempts(const std::string& target, const CallOptions& options, std::shared_ptr<core::RetryBudget> budget);

  CallOptions next() const;  // what the next one is made with, in the time that is left
  void succeeded() { budget_->succeeded(retry_.budget.value_or(0)); }
  // The pause before the next one; throws `error` where there is none.
  Duration pause_after(const std::exception_ptr& error);

 private:
  const CallOptions options_;
  const Retry retry_;
  const TimePoint deadline_;
  const std::shared_ptr<core::RetryBudget> budget_;
  unsigned made_ = 0;
};

class Retries {
 public:
  explicit Retries(Context& context) : context_(context) {}

  // The result of the first attempt that succeeds, within the timeout of `options`, which have a Retry; throws the error of
  // the last one.
  Value repeated(const std::string& target, const CallOptions& options,
                 const std::function<Value(const CallOptions&)>& attempt);

  // Begins the first attempt: `given` gets that result, or that error, on a worker. So does what `attempt` is handed, unless
  // it throws; `later` runs something on a worker.
  void submit(const std::string& target, const CallOptions& options,
              std::function<void(const CallOptions&, CallGiven)> attempt, CallGiven given,
              std::function<void(std::function<void()>)> later);

  // Whether a second node may be asked beside the first; that costs as much as a failure.
  bool may_hedge(const std::string& target, const Retry& retry);

 private:
  friend class RepeatedCall;
  std::shared_ptr<core::RetryBudget> budget_of(const std::string& target);
  void wait(Duration pause) const;

  Context& context_;
  Mutex lock_;
  std::map<std::string, std::shared_ptr<core::RetryBudget>> budgets_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::engine
