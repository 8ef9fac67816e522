// The Node: one participant, found by others under its name, reached by those it allows.
// Threads: all methods may be called from any thread. Services, handlers and callbacks run on the node's own worker
// threads, which take no signals. They may close the node, which waits for others but not for them. After fork, the child's copy
// throws ForkedNodeError and does nothing else.
// Errors: each method that needs the node at work throws NodeClosedError after `close`, and LeaseLostError once another
// process holds the name; what else it throws stands beside it.
// Spans of time are std::chrono durations: `5s`, `250ms`. A timeout of 0, or one below, does not wait; one that is no
// number, or of 10^9 seconds and more, is a ConfigurationError that names it.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <future>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "speed/export.hpp"
#include "speed/large.hpp"
#include "speed/message.hpp"
#include "speed/message_security.hpp"
#include "speed/names.hpp"
#include "speed/options.hpp"
#include "speed/seconds.hpp"
#include "speed/service.hpp"
#include "speed/topic.hpp"

namespace speed {

namespace engine {
class Runtime;
}

struct ServiceOptions {
  Callers allow = std::nullopt;  // narrows who may call; an empty list lets nobody
  // A call runs at most once, unless its service is idempotent: then it may run again after a crash, and says so
  // (Request::redelivered).
  bool idempotent = false;
  // Large bytes among its arguments stay where they arrived, as LentBytes, and are not copied (Request::get<ByteView>).
  bool views = false;
  // What callers can read of it, and what is checked of its arguments.
  std::optional<ServiceDescription> description = {};
};

// How often a call is tried, while its timeout lasts: when its node is gone, left or starts, and it was not begun.
// ConfigurationError where it is used, for numbers out of these ranges.
struct Retry {
  unsigned attempts = 3;  // in all, the first one included; 1 or more
  // Before the second attempt; each further pause is twice as long, up to 5 s, and varies by a fifth.
  Seconds backoff{0.1};
  bool idempotent = false;  // the service may run twice for one call: what may have run is tried again too
  // How much of an attempt each call that succeeds earns, so that retries never multiply the load of a node that is in
  // trouble: each that fails takes one of 10 away, and below 5 nothing is tried again. Above 0 to 1; null: no such bound.
  std::optional<double> budget = 0.1;
  // Of a family: ask a second node where the first has not answered after this time, and take whichever result comes first;
  // the other call is withdrawn. Above 0; needs `idempotent`. It costs as much of the budget as a failure.
  std::optional<Seconds> hedge = {};
};

struct CallOptions {
  Seconds timeout{30};  // the deadline, on both sides
  std::optional<std::string> traceparent = {};
  // Withdraws the call: what waits there never begins, what runs is told. It ends as the other side says: with
  // CallWithdrawnError, or a result that came first. One that is stopped already is not written.
  std::stop_token stop = {};
  // Large bytes of the result stay where they arrived, as LentBytes, and are not copied (Value::as<ByteView>).
  bool views = false;
  // Of `submit` without a hedge; its errors come by the future then, but for ConfigurationError.
  std::optional<Retry> retry = {};
  // Of a family: what has the same key goes to the same node, as long as it is there.
  std::optional<std::string> key = {};
  // Of `call`: told how far the service says it is (Request::progress), on the thread that waits. Not of
  // another host, or with `retry`: ConfigurationError.
  std::function<void(const StreamProgress&)> on_progress = {};
};

// A call that is about to be made, as its interceptors see it and may change it.
struct CallRequest {
  std::string target;
  std::string service;
  Map arguments;
  CallOptions options;
  std::optional<Value> answer = {};  // set: nothing is called, and this is the result
};

// What a call ended with: an error, or else a result. Who changes it changes what its caller gets.
struct CallOutcome {
  Value result = {};
  std::exception_ptr error = {};
};

// Runs before each attempt of a call. What it returns, if anything, runs behind it, on whatever thread brings the outcome.
// What either throws takes the place of the outcome.
using AfterCall = std::function<void(CallOutcome&)>;
using CallInterceptor = std::function<AfterCall(CallRequest&)>;

struct SendOptions {
  Seconds timeout{5};  // bounds the wait for room, and for the acknowledgement
  bool ack = false;  // wait until the receiver has it
  std::string topic = "message";
  std::optional<int> priority = {};
  std::optional<std::int64_t> ttl_seconds = {};
  std::optional<std::string> correlation_id = {};
  std::optional<std::string> causality_parent = {};
  std::optional<std::string> traceparent = {};
  std::map<std::string, std::string> labels = {};
  std::map<std::string, std::string> baggage = {};
  std::map<std::string, Bytes> extensions = {};
  bool unordered = false;  // of a payload in segments: what is sent behind it need not wait for it
  enum class OnFull { wait, drop } on_full = OnFull::wait;  // of `publish`, for a subscriber without room
  Protection protection = {};  // of messages and events; what is absent is as the node's security says
  std::optional<std::string> key = {};  // of a message to a family: as of a call
};

// What became of an event.
struct Published {
  std::vector<std::string> delivered;  // who got it
  std::map<std::string, std::string> failed;  // who should have: the code of why not

  std::size_t count() const noexcept { return delivered.size(); }
};

// Another node, as its registry entry tells.
struct SubscribeOptions {
  // Each event goes to one node of this node's family ("pricing.1" is of "pricing.*") that subscribes so, one after the
  // other.
  bool shared = false;
};

struct NodeInfo {
  std::string name;
  std::uint32_t generation = 0;
  std::int64_t pid = 0;
  std::string host;
  std::string status;
  std::string language;
  std::vector<std::string> fabrics;
  std::vector<std::string> allow;
  std::vector<std::string> deny;  // excepted from the grants: what is more specific decides
  std::vector<std::string> subscriptions;
  std::int64_t pid_start = 0;
  std::string pid_namespace;
  std::string boot_id;
  std::int64_t startup_timestamp = 0;  // Unix ms, as the next
  std::int64_t last_heartbeat = 0;
  std::int64_t heartbeat_monotonic_ms = 0;
  std::int64_t lease = 0;  // ms, as the next
  std::int64_t heartbeat_interval = 0;
  std::string version;
  std::vector<std::string> features;
  bool ephemeral = false;  // its name will not come back
  std::vector<std::string> shared = {};  // subscriptions whose events go to one node of its family each
  std::vector<std::string> observers = {};  // who may ask for figures without a grant
  std::string identity = {};  // its card, in Base64; empty without an identity
  std::vector<std::string> identities = {};  // grants that are of one identity, `name@fingerprint`
};

// A participant. It is there until it is closed or destroyed.
//
//     speed::Node billing("billing", {.allow = {"analytics"}});
//     billing.serve("tax", [](const speed::Request& request) { return request.get<double>("amount") * 0.18; });
//     speed::Node analytics("analytics");
//     const auto tax = analytics.call("billing", "tax", {{"amount", 1000}}, {.timeout = 5s}).as<double>();
class SPEED_EXPORT Node final {
 public:
  using MessageHandler = std::function<void(Message&)>;
  // Why a message of a batch is refused. Its sender is told if it asked for an acknowledgement; with a code of the
  // journal (JOURNAL_FULL, JOURNAL_REFUSED) the publisher of an event is told also unasked, about once a second.
  struct Refusal {
    Refusal() = default;
    Refusal(std::string text) : why(std::move(text)) {}
    Refusal(const char* text) : why(text) {}
    Refusal(std::string text, std::string named) : why(std::move(text)), code(std::move(named)) {}
    std::string why;
    std::string code;
  };
  using Refusals = std::map<std::size_t, Refusal>;  // by place in the batch
  using BatchHandler = std::function<Refusals(std::vector<Message>&)>;
  using NodeHandler = std::function<void(const NodeInfo&)>;
  using LostHandler = std::function<void(const std::exception_ptr&)>;
  // Gets the result, or the error that takes its place.
  using CallHandler = std::function<void(std::future<Value>)>;

  // NameTakenError, KeyFileError, RootError, InvalidNameError, DurabilityError, ConfigurationError.
  explicit Node(const std::string& name, const NodeOptions& options = {});
  ~Node();  // closes
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  // One that was moved from is closed, and has no name. What is assigned to closes first.
  Node(Node&&) noexcept = default;
  Node& operator=(Node&& other) noexcept;

  // --- access: names, or families such as "etl.*"; published before these return. InvalidNameError ---
  void allow(const Names& patterns);
  void deny(const Names& patterns);
  template <std::convertible_to<std::string_view> Pattern>
  void allow(const Pattern& pattern) {  // one: allow("billing")
    allow(Names{pattern});
  }
  template <std::convertible_to<std::string_view> Pattern>
  void deny(const Pattern& pattern) {
    deny(Names{pattern});
  }
  std::vector<std::string> allowed() const;  // the grants in force, sorted

  // --- services. ServiceExistsError, InvalidNameError, ConfigurationError for null ---
  void serve(const std::string& name, std::shared_ptr<Service> service, const ServiceOptions& options = {});
  void serve(const std::string& name, ServiceFunction function, const ServiceOptions& options = {});
  // A service that the program keeps: it outlives the node, or at least its `close`.
  void serve(const std::string& name, Service* service, const ServiceOptions& options = {});
  // Any of them, for these callers alone: serve("calculateTax", &tax, {"billing", "analytics"}). An empty list,
  // `{}`, lets nobody call it.
  template <class Offered>
  void serve(const std::string& name, Offered&& offered, std::initializer_list<Name> callers) {
    ServiceOptions options;
    options.allow = callers;
    serve(name, std::forward<Offered>(offered), options);
  }
  // A service that streams: `Node::stream` calls it, and what it returns follows its items.
  //
  //     billing.serve_stream("rows", [](const speed::Request& request, speed::ServedStream& out) -> speed::Response {
  //       for (int row = 0; row < request.get<int>("count"); ++row) out.write(row);
  //       return {};
  //     });
  void serve_stream(const std::string& name, StreamFunction function, ItemsOf items = ItemsOf::service,
                    const ServiceOptions& options = {});
  // Runs `interceptor` around each service of this node; the first one added is the outermost. It runs on a worker, where it
  // may wait, and around a service that streams from its first item to its end. ConfigurationError for null, and once a
  // service is registered, which would be without.
  void intercept_services(ServiceInterceptor interceptor);
  // Takes a service back: what runs ends as it would, and who calls it from now on gets ServiceNotFoundError, which is
  // thrown here as well if there is none.
  void unregister(const std::string& name);

  // --- calls. Of a family, `pricing.*`, one node is called: with the fewest calls of this node under way, of equals one
  // after the other; another one, where it did not begin the call. Messages and questions go in the same way.
  // Before anything is written: UnknownNodeError, AccessDeniedError, UnserialisableError,
  // PayloadTooLargeError; not written: InboxFullError, StorageError, NodeLeftError. `submit` throws these as well.
  // Then `call` and the future throw NodeStartingError, NodeLeftError, CallTimeoutError, or the CallError that the other
  // side reports. What a server that died had not begun goes to its next process, if that comes within a second or is
  // starting; else Error::execution says whether it may have run ---
  Value call(const std::string& target, const std::string& service, const Map& arguments = {},
             const CallOptions& options = {});
  std::future<Value> submit(const std::string& target, const std::string& service, const Map& arguments = {},
                            const CallOptions& options = {});
  void submit(const std::string& target, const std::string& service, const Map& arguments, CallHandler handler,
              const CallOptions& options = {});

  // Calls a service that streams; of a family, one node gives all of it. Its errors are those of a call; ConfigurationError:
  // that node knows no streams, or is one of another host.
  Stream stream(const std::string& target, const std::string& service, const Map& arguments = {},
                const StreamOptions& options = {});
  // Runs `interceptor` around each attempt of a call that this node makes from now on; the first one added is the outermost.
  // Streams do not pass it. ConfigurationError for null.
  //
  //     shop.intercept_calls([](speed::CallRequest& request) -> speed::AfterCall {
  //       return [service = request.service, began = std::chrono::steady_clock::now()](speed::CallOutcome& outcome) {
  //         record(service, std::chrono::steady_clock::now() - began, outcome.error != nullptr);
  //       };
  //     });
  void intercept_calls(CallInterceptor interceptor);

  // --- messages: in the receiver's lane when these return. Errors before that are those of a call; with `ack` also
  // NotAcknowledgedError, and the error of the receiver's handler. WireError: metadata that breaks a rule.
  // MessageError: what it cannot be protected with ---
  std::string send(const std::string& target, const Value& payload, const SendOptions& options = {});  // its id
  // One message whose payload is the bytes of a file or another source; what no envelope holds (64 MiB) goes in
  // segments and in little memory, and with each the timeout begins anew. With `ack` also SegmentsLostError, if the
  // receiver gave it up.
  std::string send_large(const std::string& target, const segment::Source& payload, const SendOptions& options = {},
                         const Progress& progress = {});
  // Sends all payloads to `target` in segments of so many bytes at most, as a bridge may need; with a parity rate, what
  // it loses is recovered, and segments have the greatest multiple of 64 bytes in it. Nothing ends it.
  // ConfigurationError.
  void segment(const std::string& target, std::optional<std::size_t> segment_size, double parity_rate = 0);
  // In their order, up to 64 or 64 KiB and one in a write with one ring; `ack` is refused. On an error the messages of
  // that write and those after it were not accepted, except those that a StorageError counts.
  void send_all(const std::string& target, const std::vector<Value>& payloads, const SendOptions& options = {});
  // Many payloads as one message, with one id, one acknowledgement and one handling; Message::payloads gives them. As of
  // `send`, and BatchError.
  std::string send_batch(const std::string& target, const std::vector<Value>& payloads,
                         const SendOptions& options = {});
  void on_message(MessageHandler handler);  // on the workers, in order for each sender; ConfigurationError: has one
  // The next message, null after the timeout; finishes the one returned before.
  std::optional<Message> receive(std::optional<Seconds> timeout = std::nullopt);

  // --- events. InvalidNameError; `publish` also UnserialisableError ---
  // To those with room at once, then to the others as they find room, within one timeout for all.
  Published publish(const std::string& topic, const Value& payload, SendOptions options = {});
  // Many payloads as one event; Message::payloads gives them. BatchError: they are more than 65536.
  Published publish_batch(const std::string& topic, const std::vector<Value>& payloads, SendOptions options = {});
  // One event for each topic, in the order of their first payloads; what became of each. The timeout is for all of them.
  // Nothing is sent before all are encoded.
  std::map<std::string, Published> publish_batch(const std::vector<std::pair<std::string, Value>>& payloads,
                                                 SendOptions options = {});
  // Messages, and events of `topics` (patterns), many at a time, in order for each sender. All are acknowledged and
  // finished when the handler returned. If it throws, the batch is handed over again after a moment; if the node closes
  // meanwhile, it waits for the next start. After a crash what was not finished comes again, with the same `sequence`.
  // With it, the node has no other handler: ConfigurationError.
  void on_batch(const Names& topics, BatchHandler handler, SubscribeOptions options = {});
  // Events of a topic, "orders.*" or "*". ConfigurationError for a pattern that is subscribed to both shared and not.
  void subscribe(const std::string& pattern, MessageHandler handler, SubscribeOptions options = {});

  // A durable topic, whose messages are kept for subscriptions (topic.hpp); nothing is asked of its host yet. `host` is the
  // node of the speedd that has `[topics]`: its name and `.topics`.
  Topic topic(const std::string& name, const std::string& host = "speedd.topics");

  // --- other nodes: asking one fails as a call does ---
  Seconds ping(const std::string& target, Seconds timeout = Seconds(5));  // how long the round trip took
  std::vector<std::string> services(const std::string& target, Seconds timeout = Seconds(5));
  // What they are: maps with name, summary, version, streaming, idempotent and columns, and with parameters and result,
  // JSON Schema, where they say so. InvalidArgumentsError from a node that does not describe.
  std::vector<Map> describe(const std::string& target, Seconds timeout = Seconds(5));
  // ConfigurationError where nodes of a family describe other services, or have other versions of them; it says which.
  void check_alike(const std::string& family, Seconds timeout = Seconds(5));
  Map info(const std::string& target, Seconds timeout = Seconds(5));
  Map stats(const std::string& target, Seconds timeout = Seconds(5));
  Map stats() const;  // of this node
  std::vector<NodeInfo> nodes(const std::optional<std::string>& fabric = std::nullopt);
  // The node once it is online and allows this one; UnknownNodeError says after the timeout which it is not.
  NodeInfo wait_for(const std::string& target, Seconds timeout = Seconds(10));
  void on_join(NodeHandler handler);
  void on_leave(NodeHandler handler);
  // Told once if the lease is lost, with the LeaseLostError, on a thread of its own.
  void on_lost(LostHandler handler);
  std::vector<std::string> remove_stale();  // entries of the dead; the names of those removed

  // --- life ---
  void ready();  // of a node made with `starting`: it serves from now on; else nothing. StorageError
  const std::string& name() const;
  const std::string& root() const;
  std::uint32_t generation() const;
  bool closed() const;  // closed, or its lease is lost
  // Leaves in the order of RFC 6.4.6: stop accepting, finish, remove the entry, release, tell others.
  void close(Seconds drain = Seconds(10));

 private:
  friend class EmbeddedNode;
  explicit Node(std::shared_ptr<engine::Runtime> runtime);  // one that does not read yet: it starts here
  void serve(const std::string& name, std::shared_ptr<Service> service, const ServiceOptions& options,
             std::optional<ItemsOf> streams);
  Stream open_stream(const CallRequest& request, const StreamOffer& offer);
  Value call_with_progress(const CallRequest& request);
  Value attempt(const CallRequest& request);
  engine::Runtime& open() const;  // NodeClosedError, LeaseLostError, ForkedNodeError

  std::shared_ptr<engine::Runtime> runtime_;  // shared with threads that a service holds up beyond the end
};

}  // namespace speed
