#include "engine/call/calling.hpp"

#include "engine/span.hpp"
#include "wire/mutex.hpp"

namespace speed::engine {

namespace {

// Tells who serves a call that it is withdrawn, when the program says so; until the call ended.
class Withdrawing {
 public:
  void begin(const std::stop_token& stop, std::function<void()> withdraw) {
    const MutexLock guard(lock_);
    if (!ended_) callback_.emplace(stop, std::move(withdraw));
  }
  void end() {
    const MutexLock guard(lock_);
    ended_ = true;
    callback_.reset();
  }

 private:
  using Callback = std::stop_callback<std::function<void()>>;
  Mutex lock_;
  bool ended_ SPEED_GUARDED_BY(lock_) = false;
  std::optional<Callback> callback_ SPEED_GUARDED_BY(lock_);
};

void begin_call(Runtime& node, const Calls::Call& call, const std::stop_token& stop, core::Completion completion) {
  if (stop.stop_requested()) {
    CallWithdrawnError error("it was withdrawn before it was written", {{"phase", "queued"}});
    error.set_execution(Execution::not_begun);
    throw error;
  }
  if (!stop.stop_possible()) {
    node.calls.start(call, std::move(completion));
    return;
  }
  const auto withdrawing = std::make_shared<Withdrawing>();
  const std::string id =
      node.calls.start(call, [withdrawing, completion = std::move(completion)](core::Outcome outcome) {
        withdrawing->end();
        completion(std::move(outcome));
      });
  withdrawing->begin(stop, [&node, target = call.target, id] {
    node.calls.withdraw(target, id);
    node.workers.ensure_reader();
  });
}

}  // namespace

void start_call(Runtime& node, const Calls::Call& call, const std::stop_token& stop, core::Completion completion) {
  try {
    begin_call(node, call, stop, std::move(completion));
  } catch (Error& error) {
    error.set_called(call.target, call.service);
    throw;
  }
}

Value call(Runtime& node, const std::string& target, const std::string& service, const Map& arguments,
           const CallOptions& options) {
  Waiter waiter;
  start_call(node, {target, service, arguments, duration_of("timeout", options.timeout), options.traceparent},
             options.stop, waiter.completion());
  try {
    return waiter.result(node.workers, options.views);
  } catch (Error& error) {
    error.set_called(target, service);
    throw;
  }
}

Value ask(Runtime& node, const std::string& target, wire::EnvelopeType type, Map body, Seconds timeout) {
  Waiter waiter;
  node.calls.ask(target, type, std::move(body), duration_of("timeout", timeout), waiter.completion());
  return waiter.result(node.workers);
}

Map discover(Runtime& node, const std::string& target, const char* operation, Seconds timeout) {
  return wire::checked_answer(operation,
                              ask(node, target, wire::EnvelopeType::discovery, {{"op", operation}}, timeout));
}

std::vector<std::optional<Map>> discover_each(Runtime& node, const std::vector<std::string>& targets,
                                              const char* operation, Seconds timeout) {
  const Duration wait = duration_of("timeout", timeout);
  std::vector<std::optional<Waiter>> waiters(targets.size());
  for (std::size_t place = 0; place < targets.size(); ++place) {
    Waiter waiter;
    try {
      node.calls.ask(targets[place], wire::EnvelopeType::discovery, {{"op", operation}}, wait, waiter.completion(),
                     true);
      waiters[place] = std::move(waiter);
    } catch (const Error&) {  // it is not there any more, or does not let this node ask
    }
  }
  std::vector<std::optional<Map>> answers(targets.size());
  for (std::size_t place = 0; place < targets.size(); ++place) {
    if (!waiters[place]) continue;
    try {
      answers[place] = wire::checked_answer(operation, waiters[place]->result(node.workers));
    } catch (const Error&) {  // it is silent, or answers with what is none
    }
  }
  return answers;
}

}  // namespace speed::engine
