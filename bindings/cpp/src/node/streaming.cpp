// Streams as programs see them, and calls with progress.
#include <atomic>
#include <utility>

#include "engine/call/items.hpp"
#include "engine/remote/peer.hpp"
#include "engine/span.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "speed/interruption.hpp"
#include "wire/names/names.hpp"

namespace speed {

using engine::duration_of;
using engine::Runtime;
using Found = StreamChannel::Found;

namespace {

constexpr Seconds look(0.1);  // how long a wait goes on before its bound, and interruptions, are looked at
constexpr Seconds no_deadline(10.0 * 365 * 24 * 3600);  // of two nodes one will have ended
constexpr std::uint64_t max_window = std::uint64_t{1} << 53;

Map running() { return {{"phase", "running"}}; }

// Of a family the member, where there was one.
void name_callee(Error& error, const std::string& target, const std::string& service) {
  const bool names_member = wire::is_family(target) && !error.node().empty();
  error.set_called(names_member ? error.node() : target, service);
}

}  // namespace

// Its two ends are used by one thread each.
struct SPEED_LOCAL Stream::State {
  State(Runtime& node, std::string node_name, std::string service_name, std::shared_ptr<StreamChannel> opened)
      : target(std::move(node_name)),
        service(std::move(service_name)),
        channel(std::move(opened)),
        fork_mark(node.context.fork_mark),
        reader(*channel) {
    if (channel->offer().sends) writer.emplace(*channel, fork_mark);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { close(); }

  void check_process() const {
    if (fork_mark->is_copied()) throw ForkedNodeError("this stream is the parent process's: nobody brings its items");
  }

  std::optional<Value> next() {
    check_process();
    if (error != nullptr) std::rethrow_exception(error);
    if (has_ended) return std::nullopt;
    try {
      return wait_for_next();
    } catch (Error& failure) {
      name_callee(failure, target, service);
      if (!failure.execution()) failure.set_execution(Execution::may_have_run);
      error = std::current_exception();
      close();
      throw;
    }
  }

  std::optional<Value> wait_for_next() {
    std::optional<Value> item;
    TimePoint since = fs::monotonic_now();
    for (Seconds timeout(0);; timeout = look) {
      const std::optional<StreamChannel::Taken> other = reader.next(item, timeout);
      if (!other) return item;
      if (other->found == Found::progress) {
        if (on_progress) on_progress(other->progress);
        since = fs::monotonic_now();
      } else if (other->found == Found::nothing) {
        look_for_interruption();
        if (idle && fs::monotonic_now() - since >= *idle) throw_idle();
      } else {
        end();
        return std::nullopt;
      }
    }
  }

  [[noreturn]] void throw_idle() const {
    throw CallTimeoutError(target + " sent nothing for " + std::to_string(Seconds(*idle).count()) + " s", running());
  }

  void end() {
    if (is_closed) throw CallWithdrawnError("the stream was closed here", running());
    if (writer) writer->check();
    const std::string broken = channel->broken();
    if (!broken.empty()) throw InternalError(target + ": " + broken, running());
    has_ended = is_closed = true;
    result = channel->outcome();
  }

  bool write(const Value& item) {
    check_sends();
    return writer->put(item);
  }

  bool finish() {
    check_sends();
    if (!writer->wait_for_begin()) return false;  // it could not be told before
    is_finished = true;
    writer->finish(true);
    return true;
  }

  void check_sends() const {
    check_process();
    if (!writer) throw ConfigurationError("this stream sends no items: ask for it with `sends`");
    if (is_finished) throw ConfigurationError("the last item of this stream was sent already");
  }

  void close() noexcept {
    if (is_closed.exchange(true) || fork_mark->is_copied()) return;
    try {
      channel->withdraw();
    } catch (const std::exception&) {  // its node is closed: nobody is to be told
    }
    channel->close();
  }

  const std::string target, service;
  const std::shared_ptr<StreamChannel> channel;
  const std::shared_ptr<const fs::ForkMark> fork_mark;
  std::optional<Duration> idle = {};
  std::function<void(const StreamProgress&)> on_progress = {};
  engine::ItemReader reader;
  std::optional<engine::ItemWriter> writer = {};
  bool is_finished = false;  // of the writing thread; what follows is of the reading one
  bool has_ended = false;
  Value result = {};
  std::exception_ptr error = {};
  std::atomic<bool> is_closed = false;
};

Stream::Stream(std::unique_ptr<State> state) : state_(std::move(state)) {}
Stream::Stream(Stream&&) noexcept = default;

Stream& Stream::operator=(Stream&& other) noexcept {
  const Stream ends(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

Stream::~Stream() {
  // Its threads and locks stayed with the parent: nothing of this copy can be ended or destroyed.
  if (state_ != nullptr && state_->fork_mark->is_copied()) {
    new std::unique_ptr<State>(std::move(state_));  // NOLINT: kept for ever on purpose
  }
}

std::optional<Value> Stream::next() { return state_->next(); }
bool Stream::write(const Value& item) { return state_->write(item); }
bool Stream::finish() { return state_->finish(); }

Value Stream::result() {
  while (state_->next()) {
  }
  return state_->result;
}

void Stream::close() noexcept {
  if (state_ != nullptr) state_->close();
}

// --- services ---

struct SPEED_LOCAL ServedStream::State {
  State(StreamChannel& opened, std::shared_ptr<const fs::ForkMark> mark, ItemsOf whose)
      : channel(opened), items(whose), reader(opened), writer(opened, std::move(mark)) {}

  StreamChannel& channel;
  const ItemsOf items;
  engine::ItemReader reader;
  engine::ItemWriter writer;
};

void ServedStream::write(const Value& item) {
  if (state_->items == ItemsOf::caller) throw ConfigurationError("this service gives no items: see ItemsOf");
  if (!state_->writer.put(item)) std::rethrow_exception(engine::ended(state_->channel));
}

std::optional<Value> ServedStream::read() {
  if (state_->items == ItemsOf::service) throw ConfigurationError("this service takes no items: see ItemsOf");
  std::optional<Value> item;
  while (true) {
    const std::optional<StreamChannel::Taken> other = state_->reader.next(item, look);
    if (!other) return item;
    if (other->found == Found::last) return std::nullopt;
    if (other->found == Found::over) std::rethrow_exception(engine::ended(state_->channel));
  }
}

namespace {

// A service whose items travel beside its call.
class StreamService : public Service {
 public:
  StreamService(StreamFunction function, ItemsOf items, std::shared_ptr<const fs::ForkMark> fork_mark)
      : function_(std::move(function)), items_(items), fork_mark_(std::move(fork_mark)) {}

  Response invoke(const Request& request) override {
    check(request);
    ServedStream::State state(*request.channel, fork_mark_, items_);
    ServedStream stream(state);
    if (items_ != ItemsOf::service) request.channel->open();
    try {
      Response response = function_(request, stream);
      if (items_ != ItemsOf::caller) state.writer.finish(false);
      return response;
    } catch (...) {
      try {
        state.writer.finish(false);  // what came before an error is read before it
      } catch (const std::exception&) {  // the error that is thrown on says more
      }
      throw;
    }
  }

 private:
  void check(const Request& request) const {
    const bool gives = items_ != ItemsOf::caller, takes = items_ != ItemsOf::service;
    const bool wants = request.channel != nullptr && request.channel->offer().wants_items();
    const bool sends = request.channel != nullptr && request.channel->offer().sends;
    const auto refuse = [&](const char* why) { throw InvalidArgumentsError(request.service + why); };
    if (gives && !wants) refuse(" gives many items: call it by `stream`");
    if (takes && !sends) refuse(" takes items: call it by `stream`, and send some");
    if (sends && !takes) refuse(" takes no items");
  }

  StreamFunction function_;
  const ItemsOf items_;
  const std::shared_ptr<const fs::ForkMark> fork_mark_;
};

}  // namespace

void Node::serve_stream(const std::string& name, StreamFunction function, ItemsOf items,
                        const ServiceOptions& options) {
  std::shared_ptr<Service> service;  // null for no function, as for no object
  if (function) {
    service = std::make_shared<StreamService>(std::move(function), items, open().context.fork_mark);
  }
  serve(name, std::move(service), options, items);
}

// --- calls ---

Stream Node::open_stream(const CallRequest& request, const StreamOffer& offer) {
  Runtime& node = open();
  try {
    auto channel = engine::peer_of(node, request.target, request.options.key)
                       ->open_stream(request.service, request.arguments, request.options, offer);
    auto state = std::make_unique<Stream::State>(node, request.target, request.service, std::move(channel));
    state->on_progress = request.options.on_progress;
    return Stream(std::move(state));
  } catch (Error& error) {
    name_callee(error, request.target, request.service);
    throw;
  }
}

Stream Node::stream(const std::string& target, const std::string& service, const Map& arguments,
                    const StreamOptions& options) {
  for (const std::uint64_t window : {options.window_items, options.window_bytes}) {
    if (window < 1 || window > max_window) throw ConfigurationError("a window of a stream is 1 to 2^53");
  }
  std::optional<Duration> idle;
  if (options.idle_timeout) idle = duration_of("idle_timeout", *options.idle_timeout);
  const StreamOffer offer{options.window_items, options.window_bytes, options.sends, options.on_progress != nullptr};
  CallRequest request{.target = target, .service = service, .arguments = arguments, .options = {}};
  request.options.timeout = options.timeout.value_or(no_deadline);
  request.options.traceparent = options.traceparent;
  request.options.on_progress = options.on_progress;
  request.options.key = options.key;
  Stream stream = open_stream(request, offer);
  stream.state_->idle = idle;
  return stream;
}

Value Node::call_with_progress(const CallRequest& request) {
  if (request.options.retry) {
    throw ConfigurationError("a call whose progress is wanted is not tried again: leave retry or on_progress");
  }
  if (request.options.stop.stop_requested()) {
    CallWithdrawnError error("it was withdrawn before it was written", {{"phase", "queued"}});
    error.set_execution(Execution::not_begun);
    throw error;
  }
  Stream stream = open_stream(request, {.progress = true});
  const std::stop_callback withdrawing(request.options.stop,
                                       [channel = stream.state_->channel] { channel->withdraw(); });
  return stream.result();
}

}  // namespace speed
