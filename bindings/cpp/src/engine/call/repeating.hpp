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

class Retries {
 public:
  explicit Retries(Context& context) : context_(context) {}

  // The result of the first attempt that succeeds, within the timeout of `options`, which have a Retry; throws the error of
  // the last one. ConfigurationError for a Retry that means nothing.
  Value repeated(const std::string& target, const CallOptions& options,
                 const std::function<Value(const CallOptions&)>& attempt);

  // Whether a second node may be asked beside the first; that costs as much as a failure.
  bool may_hedge(const std::string& target, const Retry& retry);

 private:
  std::shared_ptr<core::RetryBudget> budget_of(const std::string& target);
  void wait(Duration pause) const;

  Context& context_;
  Mutex lock_;
  std::map<std::string, std::shared_ptr<core::RetryBudget>> budgets_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::engine
