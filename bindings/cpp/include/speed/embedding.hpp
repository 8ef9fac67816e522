// A node inside the runtime of another language, as Python's engine is: waits that end when that language interrupts
// them (`Interruptible`), answers without a future for each, encoded messages, and work that goes on on another thread than
// its worker's.
// A C++ program needs none of this: `speed::Node` is the interface for it.
// Threads: all may be called from any thread, unless said otherwise. Errors are those of Node.
#pragma once

#include <span>
#include <stdexcept>

#include "speed/export.hpp"
#include "speed/interruption.hpp"
#include "speed/node.hpp"

namespace speed {

// Thrown by a handler that cannot judge a message for the moment: it comes again, and is not counted as a failure.
struct SPEED_EXPORT Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a call ended with. Whoever reads it decodes it, so that the thread that brings answers need not.
class SPEED_EXPORT Answer {
 public:
  Value value() const;  // once; throws the error that the call ended with

 private:
  friend class EmbeddedNode;
  struct State;
  explicit Answer(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

// A message that was sent; `waiting`: it was acknowledged, and waits there for its program to take it.
struct Sent {
  std::string id;
  bool waiting = false;
};

// What an embedding node does for the runtime around it; neither may block.
struct EmbeddingHooks {
  std::function<void()> at_each_tick = [] {};  // about every millisecond while something runs
  std::function<void()> at_end = [] {};  // once no worker will run anything more
};

class SPEED_EXPORT EmbeddedNode {
 public:
  EmbeddedNode(const std::string& name, const NodeOptions& options, EmbeddingHooks hooks = {});

  // As Node::serve, with a description as it travels; the service checks its arguments itself.
  void serve(const std::string& name, std::shared_ptr<Service> service, const ServiceOptions& options, Map description);

  // Its public face: what is not here is done by that.
  Node& node() noexcept { return node_; }
  const Node& node() const noexcept { return node_; }

  void check() const;  // NodeClosedError, LeaseLostError, ForkedNodeError
  bool polling() const;  // it rings no bells: lanes are looked at now and then
  void run(std::function<void()> task);  // on a worker

  // --- calls ---
  Value call(const std::string& target, const std::string& service, const Map& arguments,
             const CallOptions& options = {});
  // Writes a request and returns its id; `answered` runs once, on the thread that reads, and must not block.
  std::string start(const std::string& target, const std::string& service, const Map& arguments,
                    const CallOptions& options, std::function<void(Answer)> answered);
  // Begins a call with a stream. ConfigurationError: that node knows none.
  std::shared_ptr<StreamChannel> open_stream(const std::string& target, const std::string& service,
                                             const Map& arguments, const CallOptions& options,
                                             const StreamOffer& offer);
  void withdraw(const std::string& target, const std::string& id);  // nobody wants its answer any more
  Seconds ping(const std::string& target, Seconds timeout);
  // What a node says of itself: SERVICES, INFO or STATS.
  Map discover(const std::string& target, const char* operation, Seconds timeout);
  // The same of many nodes, asked at once, in their order; nothing of one that does not answer in time.
  std::vector<std::optional<Map>> discover_each(const std::vector<std::string>& targets, const char* operation,
                                                Seconds timeout);

  // --- messages ---
  Sent send(const std::string& target, const Value& payload, const SendOptions& options);
  Sent send_large(const std::string& target, const segment::Source& payload, const SendOptions& options,
                  const Progress& progress);
  // Sends messages that are encoded already, in their order, many in a write; `ack` awaits that of the last.
  void forward(const std::string& target, std::span<const ByteView> messages, bool as_events, bool ack,
               Seconds timeout);
  // Like `receive`, but nothing finishes the message except its own `done`; null once `wake_receivers` was called too.
  std::optional<Message> fetch(Seconds timeout);
  void put_back(const Message& message);  // it is fetched again
  void wake_receivers();

 private:
  Node node_;
};

// The bytes of a message that are held in memory: all of it, or all but the payload of a large one.
SPEED_EXPORT ByteView held_bytes(const Message& message);
SPEED_EXPORT std::size_t encoded_size(const Message& message);  // of a large message as it was received
SPEED_EXPORT bool is_finished(const Message& message);
SPEED_EXPORT bool is_large(const Message& message);  // its payload lies in the node's store
SPEED_EXPORT bool has_only_publisher(const Message& message);  // of security; most messages say no more

// What the present thread runs for a node, so that another thread can go on with it.
class SPEED_EXPORT PresentWork {
 public:
  PresentWork();
  bool give_place();  // it waits for another node; false if it runs nothing, or too many wait
  void take_place();  // it goes on
  // Closes a node on another thread that the work waits for, as a handler may close its own node.
  void close(Node& node, Seconds drain) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// While it lives, the work that this thread runs holds no place among the running. Ends on the thread that made it.
class SPEED_EXPORT PlaceGiven {
 public:
  PlaceGiven();
  PlaceGiven(const PlaceGiven&) = delete;
  PlaceGiven& operator=(const PlaceGiven&) = delete;
  ~PlaceGiven();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Leaves the signals of the process to its other threads, as a node's own threads do.
SPEED_EXPORT void block_signals();

// Names the present thread, as tools show it; 15 characters at most.
SPEED_EXPORT void name_thread(const char* name) noexcept;

}  // namespace speed
