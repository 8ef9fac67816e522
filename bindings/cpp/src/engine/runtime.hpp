// One running node: its parts, how it starts (RFC 6.3) and how it ends (RFC 6.4.6).
// Threads: all methods may be called from any thread.
#pragma once

#include "engine/call/interceptors.hpp"
#include "engine/call/repeating.hpp"
#include "engine/lane/protocol.hpp"
#include "engine/link/large_sender.hpp"
#include "engine/link/turns.hpp"
#include "engine/registrar.hpp"
#include "engine/remote/families.hpp"
#include "engine/sweeper.hpp"
#include "speed/embedding.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class Runtime : public std::enable_shared_from_this<Runtime> {
 public:
  // Checks everything, claims the name, publishes the entry. Nothing reads before `start`.
  static std::shared_ptr<Runtime> make(const std::string& name, const NodeOptions& options);
  void start();

  // Leaves in order; what is in flight gets `drain`. A second call does nothing.
  void leave(Duration drain);

  void on_lost(Node::LostHandler handler);

  void check_usable() const;  // NodeClosedError, LeaseLostError, ForkedNodeError
  bool is_forked() const { return context.fork_mark->is_copied(); }
  // Each sends one message. If the options ask for its acknowledgement, they wait for that.
  Sent send(const std::string& target, const Value& payload, const SendOptions& options);
  Sent send_large(const std::string& target, const segment::Source& payload, const SendOptions& options,
                  const Progress& progress = {});
  // Throws for a payload that is too large to be protected; an audit tells of it.
  [[noreturn]] void refuse_large(const SendOptions& options);
  // Appends one message, protected if it is to be.
  void encode(const Value& payload, const wire::MessageFields& fields, const Protection& protection,
              wire::Buffer& out) const;
  void encode(std::string_view media_type, wire::Buffer content, const wire::MessageFields& fields,
              const Protection& protection, wire::Buffer& out) const;
  bool protects(const Protection& protection) const;
  wire::MessageFields fields_of(const SendOptions& options);  // with id, time and the trace at hand
  void stamp(wire::MessageFields& fields);                    // a new id and the present time

  // A whole message, in segments if no envelope holds it.
  bool send_message(const std::string& target, const segment::Source& message, const SendOptions& options,
                    const Progress& progress);
  // Blocks until that node runs and lets this one write. Throws UnknownNodeError when it does not in time.
  NodeInfo wait_for(const std::string& target, Duration timeout);

  // Orders changes of grants, services and subscriptions with their publication.
  Mutex lock SPEED_ACQUIRED_AFTER(end_lock_);
  Context context;
  Links links;
  Turns turns;
  Workers workers;
  Answers answers;
  std::unique_ptr<Protocol> protocol;
  Calls calls;
  LargeSender large;
  Serving serving;
  Delivery delivery;
  std::shared_ptr<DeadLetters> dead;
  Introspection introspection;
  Families families{context, registrar};
  Retries retries{context};
  Interceptors interceptors;
  std::unique_ptr<Sweeper> sweeper;
  std::unique_ptr<Registrar> registrar;

 private:
  explicit Runtime(std::size_t size);  // how many workers
  void prepare(const std::string& name, const NodeOptions& options);
  void let_look();
  void claim(const NodeOptions& options);
  void begin();
  // `callbacks`: for how long those are waited for that hear of the end of a call.
  void end(const std::exception_ptr& why, bool orderly, Duration callbacks);
  void end_in_order(bool settled);
  void lost(const std::exception_ptr& why);
  void tell_lost(const std::exception_ptr& why);
  void leave_registry();
  void say_leave();
  void forget();
  void release();  // of what the program registered: it may hold this node
  wire::Block<10> random_bytes();

  std::unique_ptr<Dispatch> dispatch_;
  Mutex end_lock_;  // held while the node ends, so that nobody leaves before it has
  std::vector<Node::LostHandler> lost_handlers_ SPEED_GUARDED_BY(lock);
  Mutex random_lock_;
  std::vector<wire::Block<10>> random_ SPEED_GUARDED_BY(random_lock_);
};

}  // namespace speed::engine
