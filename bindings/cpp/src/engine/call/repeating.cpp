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

Attempts::Attempts(const std::string& target, const CallOptions& options, std::shared_ptr<core::RetryBudget> budget)
    : options_(options),
      retry_(*options.retry),
      deadline_(fs::monotonic_now() + duration_of("timeout", options.timeout)),
      budget_(std::move(budget)) {
  check(retry_, target);
}

CallOptions Attempts::next() const {
  CallOptions rest = options_;
  if (!retry_.hedge) rest.retry.reset();
  rest.timeout = std::max(Duration::zero(), deadline_ - fs::monotonic_now());
  return rest;
}

Duration Attempts::pause_after(const std::exception_ptr& error) {
  ++made_;
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    if (!core::may_repeat(known.code(), known.execution(), retry_.idempotent)) throw;
    const bool has_budget = budget_->failed() || !retry_.budget;
    const Duration pause = varied(core::backoff(duration_of("backoff", retry_.backoff), made_));
    if (!has_budget || made_ >= retry_.attempts || fs::monotonic_now() + pause >= deadline_) throw;
    return pause;
  }
}

Value Retries::repeated(const std::string& target, const CallOptions& options,
                        const std::function<Value(const CallOptions&)>& attempt) {
  Attempts attempts(target, options, budget_of(target));
  while (true) {
    Duration pause{};
    try {
      Value result = attempt(attempts.next());
      attempts.succeeded();
      return result;
    } catch (const Error&) {
      pause = attempts.pause_after(std::current_exception());
    }
    wait(pause);
  }
}

// A call that nobody waits for.
// Threads: its parts run one after the other, on any thread.
class RepeatedCall : public std::enable_shared_from_this<RepeatedCall> {
 public:
  RepeatedCall(const Retries& retries, Attempts attempts, std::function<void(const CallOptions&, CallGiven)> attempt,
               CallGiven given, std::function<void(std::function<void()>)> later)
      : retries_(retries),
        attempts_(std::move(attempts)),
        attempt_(std::move(attempt)),
        given_(std::move(given)),
        later_(std::move(later)) {}

  void go_on() {
    const auto self = shared_from_this();
    try {
      attempt_(attempts_.next(), [self](CallOutcome outcome) { self->ended(std::move(outcome)); });
    } catch (...) {
      later_([self, error = std::current_exception()] { self->ended({.result = {}, .error = error}); });
    }
  }

 private:
  void ended(CallOutcome outcome) {
    if (outcome.error == nullptr) {
      attempts_.succeeded();
      return given_(std::move(outcome));
    }
    try {
      retries_.wait(attempts_.pause_after(outcome.error));
    } catch (...) {
      return given_({.result = {}, .error = std::current_exception()});
    }
    go_on();
  }

  const Retries& retries_;
  Attempts attempts_;
  const std::function<void(const CallOptions&, CallGiven)> attempt_;
  const CallGiven given_;
  const std::function<void(std::function<void()>)> later_;
};

void Retries::submit(const std::string& target, const CallOptions& options,
                     std::function<void(const CallOptions&, CallGiven)> attempt, CallGiven given,
                     std::function<void(std::function<void()>)> later) {
  std::make_shared<RepeatedCall>(*this, Attempts(target, options, budget_of(target)), std::move(attempt),
                                 std::move(given), std::move(later))
      ->go_on();
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
