#include "engine/call/interceptors.hpp"

#include <utility>

#include "speed/error.hpp"

namespace speed::engine {

namespace {

class InterceptedService : public Service {
 public:
  InterceptedService(std::shared_ptr<Service> service, ServiceInterceptor interceptor)
      : service_(std::move(service)), interceptor_(std::move(interceptor)) {}
  Response invoke(const Request& request) override {
    return interceptor_(request, [this](const Request& let) { return service_->invoke(let); });
  }

 private:
  std::shared_ptr<Service> service_;
  ServiceInterceptor interceptor_;
};

template <class Interceptor>
void check(const Interceptor& interceptor) {
  if (!interceptor) throw ConfigurationError("an interceptor is null: give a function");
}

}  // namespace

void Interceptors::add(CallInterceptor interceptor) {
  check(interceptor);
  const MutexLock guard(lock_);
  auto more = calls_ == nullptr ? std::vector<CallInterceptor>() : *calls_;
  more.push_back(std::move(interceptor));
  calls_ = std::make_shared<const std::vector<CallInterceptor>>(std::move(more));
  has_calls_ = true;
}

void Interceptors::add(ServiceInterceptor interceptor) {
  check(interceptor);
  const MutexLock guard(lock_);
  if (has_services_) {
    throw ConfigurationError("a service is registered already: add interceptors of services before");
  }
  services_.insert(services_.begin(), std::move(interceptor));
}

CallInterceptors Interceptors::around_calls() const {
  if (!has_calls_) return nullptr;
  const MutexLock guard(lock_);
  return calls_;
}

std::shared_ptr<Service> Interceptors::around(std::shared_ptr<Service> service) {
  const MutexLock guard(lock_);
  has_services_ = true;
  for (const ServiceInterceptor& one : services_) {
    service = std::make_shared<InterceptedService>(std::move(service), one);
  }
  return service;
}

Passage::Passage(CallInterceptors interceptors, CallRequest request)
    : interceptors_(std::move(interceptors)), request_(std::move(request)) {
  if (interceptors_ == nullptr) return;
  try {
    for (const CallInterceptor& one : *interceptors_) {
      if (AfterCall after = one(request_)) open_.push_back(std::move(after));
      if (!request_.answer) continue;
      outcome_.result = *std::exchange(request_.answer, std::nullopt);
      leave();
      break;
    }
  } catch (...) {
    outcome_.error = std::current_exception();
    leave();
  }
}

CallOutcome Passage::ended(CallOutcome outcome) {
  outcome_ = std::move(outcome);
  leave();
  return take();
}

void Passage::leave() {
  is_over_ = true;
  while (!open_.empty()) {
    const AfterCall after = std::move(open_.back());
    open_.pop_back();
    try {
      after(outcome_);
    } catch (...) {
      outcome_ = {.result = {}, .error = std::current_exception()};
    }
  }
}

}  // namespace speed::engine
