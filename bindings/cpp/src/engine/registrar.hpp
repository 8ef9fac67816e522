// The registry thread: lease, joins and leaves, nodes that died.
// Threads: all methods may be called from any thread; callbacks run on workers.
#pragma once

#include <set>
#include <thread>

#include "core/membership.hpp"
#include "engine/context.hpp"
#include "engine/threads/workers.hpp"
#include "fs/registry/watch.hpp"
#include "speed/node.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

NodeInfo info_of(const wire::Entry& entry);

class Registrar {
 public:
  // What the registry thread brings about elsewhere.
  struct Effects {
    std::function<void(std::exception_ptr)> lost;       // the name is gone
    std::function<void(const std::string&)> left;       // a node is gone
    std::function<std::set<std::string>()> callees;     // nodes that somebody waits for
    std::function<void(const std::string&, std::uint32_t)> there;  // which life of one of those is
    std::function<void()> sweep;                        // for a short time
  };

  Registrar(Context& context, Workers& workers, Duration heartbeat);
  ~Registrar();

  void start(Effects effects, const std::shared_ptr<void>& owner);
  void stop();
  void look_at_lease();  // now
  void release();  // of all handlers
  void on_join(Node::NodeHandler handler);
  void on_leave(Node::NodeHandler handler);

 private:
  using HandlerPtr = std::shared_ptr<const Node::NodeHandler>;

  void run();
  bool renew();
  void look_at_observers();
  void look_at_keys();
  void look_at_identity();
  void tell_refused(const std::string& wrong, std::string& last);
  void look() SPEED_EXCLUDES(lock_);
  template <class Part>
  void guarded(const char* what, Part part);
  void check_callees();
  void tell(const core::RegistryChange& change) SPEED_EXCLUDES(lock_);
  void begin_watching() SPEED_REQUIRES(lock_);

  Context& context_;
  Workers& workers_;
  const Duration heartbeat_;
  Effects effects_;
  fs::Watch watch_;
  core::RegistryView view_ SPEED_GUARDED_BY(lock_);
  std::string refused_;  // what was said last of the key file
  std::string refused_observers_;  // and of the observers
  std::string refused_identity_;  // and of the identity file
  std::uint64_t identity_changes_ = 0;  // as far as the entry tells of them
  Mutex lock_;
  bool watching_ SPEED_GUARDED_BY(lock_) = false;
  std::vector<HandlerPtr> join_handlers_ SPEED_GUARDED_BY(lock_);
  std::vector<HandlerPtr> leave_handlers_ SPEED_GUARDED_BY(lock_);
  std::thread thread_;
};

}  // namespace speed::engine
