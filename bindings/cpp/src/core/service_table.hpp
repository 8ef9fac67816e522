// The services of one node: registration and invocation (S-3, S-8, S-9, A-5). In memory only.
// Threads: all methods may be called from any thread; services run outside of its lock.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "speed/access_policy.hpp"
#include "speed/service.hpp"

namespace speed::core {

class ServiceTable {
 public:
  // `allow` narrows who may call it. InvalidNameError, ServiceExistsError.
  void add(const std::string& name, std::shared_ptr<Service> service,
           const std::optional<std::vector<std::string>>& allow);

  // The names that `caller` may call, sorted.
  std::vector<std::string> names(const std::string& caller) const;

  // Steps 3 to 8 of S-3; never throws for what a service or a caller does wrong. `entering` runs right before the
  // service, if one is found that allows the caller.
  Response invoke(const Request& request, const std::function<void()>& entering = [] {}) const;

 private:
  struct Row {
    std::shared_ptr<Service> service;
    std::shared_ptr<AccessPolicy> policy;  // null: whoever may write to the node may call

    bool allows(const std::string& caller) const { return policy == nullptr || policy->allows(caller); }
  };
  std::optional<Row> find(const std::string& name) const;

  mutable std::mutex lock_;
  std::map<std::string, Row> rows_;
};

}  // namespace speed::core
