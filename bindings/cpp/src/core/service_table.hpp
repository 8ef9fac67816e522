// The services of one node: registration and invocation (S-3, S-8, S-9, A-5). In memory only.
// Threads: all methods may be called from any thread; services run outside of its lock.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "speed/access_policy.hpp"
#include "speed/service.hpp"
#include "wire/mutex.hpp"

namespace speed::core {

class ServiceTable {
 public:
  // `allow` narrows who may call it; an idempotent one may run twice; one with `views` gets large bytes where they
  // arrived. InvalidNameError, ServiceExistsError.
  void add(const std::string& name, std::shared_ptr<Service> service,
           const std::optional<std::vector<std::string>>& allow, bool idempotent = false, bool views = false,
           Map description = {});

  void remove(const std::string& name);  // what runs ends as it would; ServiceNotFoundError

  void release();  // of all services, since nobody calls them any more; their names stay

  bool has(const std::string& name) const;

  // The names that `caller` may call, sorted.
  std::vector<std::string> names(const std::string& caller) const;

  // What `caller` may know of the services that it may call (S-26), sorted, within `most_bytes`: what does not fit stands
  // there without its parameters and its result.
  Array descriptions(const std::string& caller, std::size_t most_bytes) const;

  // A service that was found and allows its caller, or why not.
  struct Found {
    std::shared_ptr<Service> service;
    bool idempotent = false;
    bool views = false;
    bool streams = false;
    std::optional<Response> refusal;  // where `service` is null
  };
  // Steps 3 and 4 of S-3.
  Found find(const std::string& name, const std::string& caller) const;

  // Step 7; never throws for what a service or a caller does wrong. `thrown` says what the service failed with, where it
  // did not mean to.
  static Response run(Service& service, const Request& request, std::string& thrown);

 private:
  struct Row {
    std::shared_ptr<Service> service;  // null once it was let go
    std::shared_ptr<AccessPolicy> policy;  // null: whoever may write to the node may call
    bool idempotent = false;
    bool views = false;
    Map description;  // as it travels

    bool allows(const std::string& caller) const { return policy == nullptr || policy->allows(caller); }
  };
  std::optional<Row> row(const std::string& name) const;

  mutable Mutex lock_;
  std::map<std::string, Row> rows_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::core
