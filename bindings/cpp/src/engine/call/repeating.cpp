#include "engine/call/repeating.hpp"

#include <algorithm>
#include <random>

#include "engine/span.hpp"
#include "engine/threads/workers.hpp"
#include "fs/clock.hpp"
#include "speed/interruption.hpp"
#include "wire/names/names.hpp"

namespace speed::engine {

namespace {

constexpr double variation = 0.2;

void check(const Retry& retry, const std::string& target) {
  if (retry.attempts < 1) throw ConfigurationError("attempts is 0; use 1 or more");
  if (retry.backoff.count() < 0) throw ConfigurationError("backoff is below 0 s; use 0 s or more");
  duration_of("backoff", retry.backoff);
  if (retry.budget && !(*retry.budget > 0 && *retry.budget <= 1)) {
    throw ConfigurationError("budget is " + std::to_string(*retry.budget) + "; use a number above 0, up to 1");
  }
  if (!retry.hedge) return;
  if (retry.hedge->count() <= 0) throw ConfigurationError("hedge must be above 0 s");
  duration_of("hedge", *retry.hedge);
  if (!retry.idempotent) throw ConfigurationError("hedge needs idempotent: the service may run twice for one call");
  if (!wire::is_family(target)) {
    throw ConfigurationError("hedge asks another node of a family: call one, such as 'pricing.*'");
  }
}

// So that callers do not come all at once.
Duration varied(Duration pause) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return saturated(Seconds(pause) * std::uniform_real_distribution<double>(1 - variation, 1 + variation)(random));
}

}  // namespace

Value Retries::repeated(const std::string& target, const CallOptions& options,
                        const std::function<Value(const CallOptions&)>& attempt) {
  const Retry& retry = *options.retry;
  check(retry, target);
  const TimePoint deadline = fs::monotonic_now() + duration_of("timeout", options.timeout);
  const std::shared_ptr<core::RetryBudget> budget = budget_of(target);
  CallOptions rest = options;
  if (!retry.hedge) rest.retry.reset();
  for (unsigned made = 1;; ++made) {
    Duration pause{};
    try {
      rest.timeout = std::max(Duration::zero(), deadline - fs::monotonic_now());
      Value result = attempt(rest);
      budget->succeeded(retry.budget.value_or(0));
      return result;
    } catch (const Error& error) {
      if (!core::may_repeat(error.code(), error.execution(), retry.idempotent)) throw;
      const bool has_budget = budget->failed() || !retry.budget;
      pause = varied(core::backoff(duration_of("backoff", retry.backoff), made));
      if (!has_budget || made >= retry.attempts || fs::monotonic_now() + pause >= deadline) throw;
    }
    wait(pause);
  }
}

bool Retries::may_hedge(const std::string& target, const Retry& retry) {
  return budget_of(target)->failed() || !retry.budget;
}

std::shared_ptr<core::RetryBudget> Retries::budget_of(const std::string& target) {
  const MutexLock guard(lock_);
  std::shared_ptr<core::RetryBudget>& budget = budgets_[target];
  if (budget == nullptr) budget = std::make_shared<core::RetryBudget>();
  return budget;
}

// What waits holds no place (T-3).
void Retries::wait(Duration pause) const {
  const Workers::PlaceRelease released;
  const TimePoint ends = fs::monotonic_now() + pause;
  while (true) {
    look_for_interruption();
    const Duration left = ends - fs::monotonic_now();
    if (left <= Duration::zero()) return;
    if (context_.life.wait_for_end(std::min(left, interruption_period))) context_.life.check();
  }
}

}  // namespace speed::engine
