#include "engine/runtime.hpp"

#include <sodium.h>
#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>

#include "core/counters.hpp"
#include "engine/span.hpp"
#include "engine/tracing.hpp"
#include "fs/clock.hpp"
#include "fs/keys/key_store.hpp"
#include "fs/lane/lane_state.hpp"
#include "fs/probe.hpp"
#include "fs/registry/observers.hpp"
#include "fs/registry/root.hpp"
#include "speed/error.hpp"
#include "wire/names/names.hpp"
#include "wire/value/control.hpp"

namespace speed::engine {

namespace {

constexpr Duration join_timeout = 5s;
constexpr Duration callback_timeout = 1s;
constexpr Duration callback_timeout_with_hung_work = 500ms;
constexpr Duration wait_pause = 10ms;
constexpr rlim_t most_open_files = 8192;  // for lanes and links, however many the process may have; else half of those

wire::SchemaFields schema_fields(const SchemaReference& schema) {
  return {schema.url, schema.version, schema.format, schema.hash, schema.name, schema.compatibility, {}};
}

void within(const char* option, std::uint64_t value, std::uint64_t least, std::optional<std::uint64_t> most = {}) {
  if (value >= least && (!most || value <= *most)) return;
  const std::string possible = std::to_string(least) + (most ? " to " + std::to_string(*most) : " or more");
  throw ConfigurationError(std::string(option) + " is " + std::to_string(value) + "; use " + possible);
}

void seconds_within(const char* option, Seconds value, double least, double most) {
  if (value.count() >= least && value.count() <= most) return;
  std::ostringstream text;
  text << option << " is " << value.count() << " s; use " << least << " to " << most << " s";
  throw ConfigurationError(text.str());
}

void check(const std::string& name, const NodeOptions& options) {
  wire::check_node_name(name);
  // generated from registry_spec/options.json by scripts/generate
  duration_of("lease", options.lease);
  duration_of("heartbeat", options.heartbeat);
  within("workers", options.workers, 1, 256);
  within("name_space.size()", options.name_space.size(), 1, 128);
  seconds_within("spin", options.spin, 0, 0.01);
  within("max_deliveries", options.max_deliveries, 1, 1'000'000);
  within("max_lane_bytes", options.max_lane_bytes, 1);
  // end of what is generated
  duration_of("segment_limits.idle", options.segment_limits.idle);
  duration_of("segment_limits.total", options.segment_limits.total);
  duration_of("segment_limits.completion", options.segment_limits.completion);
}

std::size_t default_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return most_open_files;
  return std::min(most_open_files, limit.rlim_cur / 2);
}

RegistrationError not_started(const std::string& name, const std::system_error& error) {
  return RegistrationError("cannot start '" + name + "': " + error.code().message() +
                           ": this process has too many files or threads");
}

}  // namespace

Runtime::Runtime(std::size_t size)
    : links(context),
      workers(size),
      answers(context, links),
      calls(context, links,
            {[this](TimePoint deadline) { protocol->wake_by(deadline); },
             [this](const std::string& name) { protocol->node_left(name); },
             [this](Task task) { workers.submit(std::move(task)); }}),
      large(context, links, calls, workers),
      serving(context, links, workers, answers),
      delivery(context, workers),
      introspection(
          context, serving.services, [this] { return calls.pending(); }, [this] { return protocol->facts(); },
          workers) {
  context.replaced = [this](const std::string& why) {
    context.registration->replaced(why);
    registrar->look_at_lease();
  };
  context.unheard = [this](const std::string& target) { protocol->has_no_reader(target); };
}

std::shared_ptr<Runtime> Runtime::make(const std::string& name, const NodeOptions& options) {
  if (sodium_init() < 0) throw ConfigurationError("libsodium cannot be initialised on this machine");
  check(name, options);
  std::shared_ptr<Runtime> runtime(new Runtime(options.workers));
  runtime->prepare(name, options);
  runtime->claim(options);
  return runtime;
}

void Runtime::prepare(const std::string& name, const NodeOptions& options) {
  const std::string root = options.root.empty() ? fs::default_root() : options.root;
  context.name = name;
  context.log.names(name);
  context.id = wire::node_id(name);
  context.root = std::filesystem::absolute(root).lexically_normal().string();
  context.name_space = options.name_space;
  context.accept_name_spaces = options.accept_name_spaces;
  context.window_bytes = options.max_lane_bytes;
  context.spin = duration_of("spin", options.spin);
  context.max_open_files = options.max_open_files > 0 ? options.max_open_files : default_open_files();
  context.segment_limits = options.segment_limits;
  context.on_error = options.on_error;
  context.max_deliveries = options.max_deliveries;
  if (options.security) context.guard = std::make_unique<message::Guard>(*options.security, name);
  context.policy.allow(wire::local_grants(options.allow));
  fs::check_root(context.root);  // before the key: why that is out of reach is told by the root
  const std::string key = options.key.empty() ? fs::default_key_path(context.root) : options.key;
  context.keys = std::make_unique<fs::KeySource>(key);
  if (!options.identity.empty()) {
    context.peers = std::make_unique<Peers>(context.root, options.identity, context.policy, *context.keys, context.log);
  }
  context.check_grants();
  context.registry = std::make_unique<fs::Registry>(context.root, context.keyring());
  context.registry->prepare();
  const fs::Filesystem filesystem = fs::filesystem_of(context.root);
  context.registry->late_ms = std::chrono::duration_cast<std::chrono::milliseconds>(filesystem.late).count();
  context.check_not_copied();
  if (options.durable && filesystem.is_memory) {
    throw DurabilityError(context.root + " lies in memory: it cannot survive a power cut; use a root on a disk");
  }
  context.durable = options.durable;
  context.remote = filesystem.is_remote;
  context.polling = options.polling || filesystem.is_remote || !filesystem.supports_fifo;
  let_look();
}

// Observers are those of the root's owner; a file that does not count names none.
void Runtime::let_look() {
  try {
    context.observers.replace(fs::observers_of(context.root));
  } catch (const ConfigurationError& error) {
    context.log.always(LogLevel::warning, "speed.registry", error.what());
  }
}

// The inbox is ready before anyone can see the entry.
void Runtime::claim(const NodeOptions& options) {
  std::unique_ptr<fs::Bell> bell;
  std::unique_ptr<fs::Inbox> inbox;
  const auto before_publish = [&](const fs::Won& won) {
    fs::Inbox::prepare(context.root, context.name);
    inbox = std::make_unique<fs::Inbox>(context.root, context.name, won.generation, context.keyring(),
                                        won.claimant.ephemeral, wire::limits::max_lanes, context.buffers);
    inbox->is_live = [this](const std::string& name, std::uint32_t generation) {
      const fs::EntryPtr entry = context.registry->surely_live(name);
      return entry != nullptr && static_cast<std::uint32_t>(entry->generation) == generation;
    };
    inbox->is_remote = context.remote;
    if (context.peers != nullptr) inbox->identity = &context.peers->source;
    inbox->late = std::chrono::milliseconds(context.registry->late_ms);
    if (won.former > 0) fs::fence_lanes(context.root, context.name, won.generation, context.keyring());
    if (!context.polling) bell = std::make_unique<fs::Bell>(wire::bell_path(context.root, context.name));
  };
  fs::Registration::Settings settings{
      context.name,
      in_milliseconds("lease", options.lease),
      in_milliseconds("heartbeat", options.heartbeat),
      options.fabrics,
      context.policy.allowed(),
      options.language,
      {"segments", "withdraw", "slots", "streams"},
      [&](const std::string& text) { context.log.always(LogLevel::warning, "speed.registry", text); },
      options.ephemeral,
      options.starting,
      context.peers == nullptr ? std::string() : context.peers->card(context.name),
      context.policy.identities(),
      [this] { context.check_not_copied(); }};  // of two that start at once, each sees the other by now
  settings.observers = context.observers.names();
  context.registration = fs::Registration::make(*context.registry, settings, before_publish);
  context.generation = context.registration->generation();
  try {
    dead = std::make_shared<DeadLetters>(context, workers);
    delivery.bury_in(*dead);
    protocol = std::make_unique<Protocol>(context, std::move(bell), std::move(inbox), [this] { dead->look(); });
    sweeper = std::make_unique<Sweeper>(context, duration_of("lease", options.lease), options.ephemeral,
                                        [this] { links.close_departed(); });
    registrar = std::make_unique<Registrar>(context, workers, duration_of("heartbeat", options.heartbeat));
  } catch (const std::system_error& error) {
    context.registration->remove();
    throw not_started(context.name, error);
  }
}

void Runtime::start() {
  try {
    begin();
  } catch (const std::system_error& error) {
    leave(Duration::zero());
    throw not_started(context.name, error);
  }
}

void Runtime::begin() {
  const auto left = [this](const std::string& name) {
    protocol->node_left(name);
    sweeper->note_gone(name);
  };
  context.lane_removed = [this](const std::string& source) { sweeper->note_gone(source); };
  context.life.start();
  dispatch_ = std::make_unique<Dispatch>(
      Dispatch::Parts{context, links, calls, serving, delivery, introspection, workers, answers, *dead}, left);
  protocol->dispatch_to(*dispatch_);
  links.on_open([this](OutgoingLink& link) { protocol->watch_reader(link); });
  Workers::Callbacks callbacks;
  callbacks.step = [this](bool wait) { protocol->step(wait); };
  callbacks.flush = [this](bool may_wait) { return answers.flush(may_wait); };
  callbacks.answers = [this] { return answers.waiting(); };
  callbacks.calls = [this] { return calls.pending(); };
  callbacks.wake = [this] { protocol->wake(); };
  workers.start(std::move(callbacks), shared_from_this());
  // The name is gone: end at once and write nothing more.
  const auto waited_for = [this] {
    std::set<std::string> names = calls.targets();
    names.merge(workers.scheduling([](core::Scheduler& scheduler) { return scheduler.senders(); }));
    return names;
  };
  const auto there = [this](const std::string& name, std::uint32_t life) {
    if (calls.has_older(name, life)) protocol->node_left(name);
    serving.forget(name, life);
  };
  registrar->start(
      {[this](const std::exception_ptr& why) { lost(why); }, left, waited_for, there, [this] { sweeper->turn(); }},
      shared_from_this());
}

void Runtime::leave(Duration drain) {
  if (!context.life.leave()) {
    if (context.life.state() == core::NodeState::lost) const MutexLock guard(end_lock_);  // everything ends already
    return;
  }
  try {
    context.registration->update([](wire::Entry& entry) { entry.status = "leaving"; });
  } catch (const Error&) {
    // Without a word the node leaves all the same.
  }
  workers.scheduling([](core::Scheduler& scheduler) { scheduler.leave(); });
  delivery.stop_waiting();
  end_in_order(workers.drain(drain));
  look_for_interruption();  // not before the node has ended
}

// `settled`: nothing waits or runs any more. Not left half way.
void Runtime::end_in_order(bool settled) {
  const Interruptible not_at_all({});
  end(std::make_exception_ptr(NodeClosedError("node '" + context.name + "' was closed")), true,
      settled ? callback_timeout : callback_timeout_with_hung_work);
  say_leave();
  links.shut();
  if (context.registration->entry().ephemeral) forget();
  release();
}

// Fails all who wait, answers whom nobody serves any more, stops all threads, releases the lanes, and only then the name: a
// successor may read the same lanes from then on, and fences off what this node writes.
void Runtime::end(const std::exception_ptr& why, bool orderly, Duration callbacks) {
  const MutexLock guard(end_lock_);
  if (!(orderly ? context.life.close(why) : context.life.lose(why))) return;
  if (!orderly) tell_lost(why);  // who is told finds the node ended
  calls.fail_all(why);
  workers.drain(callbacks);  // what waits for a call hears of its end
  const auto waiting = workers.scheduling([](core::Scheduler& scheduler) { return scheduler.close(); });
  if (orderly) {
    serving.leave(waiting);
    delivery.finish(Workers::present().job);
    delivery.finish_in_hand();
  }
  delivery.wake_receivers();
  workers.stop(join_timeout);
  registrar->stop();
  protocol->close();
  if (dispatch_ != nullptr) dispatch_->close();
  if (orderly) {
    links.end();
    leave_registry();
  } else {
    links.shut();
    context.registration->close();
  }
  protocol->release_bell();
}

void Runtime::leave_registry() {
  if (context.registration->entry().ephemeral) {
    context.registration->expire();
  } else {
    context.registration->remove();
  }
}

// What is left of a name that will not come back goes now, but for what lies in the inboxes of others.
void Runtime::forget() {
  try {
    fs::sweep(*context.registry, context.name);
  } catch (const std::exception&) {
    context.stats.count(core::counters::sweeps_failed);  // others do it later
  }
}

// Tells every node that this one wrote to and that still allows it; the registry tells the rest.
void Runtime::say_leave() {
  const Bytes payload = wire::pack(Map{{"op", "LEAVE"}});
  const ByteView one(payload);
  for (const LinkPtr& link : links.opened()) {
    try {
      const fs::EntryPtr entry = context.registry->live(link->target());
      if (entry == nullptr || !context.is_granted_by(*entry)) continue;
      Outgoing notice{wire::EnvelopeType::discovery, 0, {&one, 1}, {}, true};
      notice.is_last = true;
      link->send(notice);
    } catch (const std::exception&) {
      context.stats.count(core::counters::leave_notices_undelivered);
    }
  }
}

void Runtime::on_lost(Node::LostHandler handler) {
  const MutexLock guard(lock);
  lost_handlers_.push_back(std::move(handler));
}

// The name is gone. The program hears of it on a thread of its own, since it may take its time.
void Runtime::lost(const std::exception_ptr& why) {
  context.log.always(LogLevel::error, "speed.registry",
                     "the lease is lost: another may have the name, and this node has ended");
  end(why, false, callback_timeout);
  release();
}

// Not under the lock of the end: what is let go may close this node once more.
void Runtime::release() {
  serving.services.release();
  delivery.release();
  registrar->release();
  std::vector<Node::LostHandler> handlers;
  const MutexLock guard(lock);
  handlers.swap(lost_handlers_);
}

// On a thread of its own: the end does not wait for what the program does now.
void Runtime::tell_lost(const std::exception_ptr& why) {
  std::vector<Node::LostHandler> handlers;
  {
    const MutexLock guard(lock);
    handlers.swap(lost_handlers_);
  }
  if (handlers.empty()) return;
  std::thread([self = shared_from_this(), handlers = std::move(handlers), why] {
    fs::block_signals();
    fs::name_thread("speed-lost");
    for (const auto& handler : handlers) {
      const ProgramsCode scope(*self->context.fork_mark);
      try {
        handler(why);
      } catch (...) {
        self->context.callback_failed("a handler of on_lost");
      }
    }
  }).detach();
}

void Runtime::check_usable() const {
  if (is_forked()) {
    throw ForkedNodeError("node '" + context.name + "' belongs to the parent process: make a Node in the child");
  }
  context.life.check();
}

// Drawn in batches: each draw is a system call.
wire::Block<10> Runtime::random_bytes() {
  const MutexLock guard(random_lock_);
  if (random_.empty()) {
    random_.resize(256);
    randombytes_buf(random_.data(), random_.size() * sizeof random_[0]);
  }
  const wire::Block<10> bytes = random_.back();
  random_.pop_back();
  return bytes;
}

NodeInfo Runtime::wait_for(const std::string& target, Duration timeout) {
  wire::check_node_name(target);
  const TimePoint deadline = fs::monotonic_now() + timeout;
  const Workers::PlaceRelease released;
  while (true) {
    const fs::EntryPtr entry = context.registry->surely_live(target);
    if (entry != nullptr && entry->status == "online" && context.is_granted_by(*entry)) return info_of(*entry);
    look_for_interruption();
    if (fs::monotonic_now() < deadline && !context.life.wait_for_end(wait_pause)) continue;
    const bool serves = entry != nullptr && entry->status == "online";
    const std::string why = entry == nullptr ? "is not live"
                            : !serves        ? "is " + entry->status
                                             : "does not allow '" + context.name + "'";
    context.registry->check_there();
    context.registry->check_readable(target);
    std::ostringstream text;
    text << '\'' << target << "' " << why << " after " << in_seconds(timeout) << " s";
    throw UnknownNodeError(text.str());
  }
}

Sent Runtime::send(const std::string& target, const Value& payload, const SendOptions& options) {
  const wire::MessageFields fields = fields_of(options);
  wire::Buffer encoded = context.buffers.take();
  encode(payload, fields, options.protection, encoded);
  const bool waiting = send_message(target, segment::MemorySource(encoded.view()), options, {});
  context.buffers.give(std::move(encoded));
  return {fields.message_id, waiting};
}

Sent Runtime::send_large(const std::string& target, const segment::Source& payload, const SendOptions& options,
                         const Progress& progress) {
  if (protects(options.protection)) {  // what protects it is over all of its bytes (M-16)
    if (payload.size() > wire::limits::max_payload_bytes) refuse_large(options);
    Sent sent = send(target, all_of(payload), options);
    if (progress) progress(payload.size(), payload.size());
    return sent;
  }
  const wire::MessageFields fields = fields_of(options);
  wire::Buffer front;
  wire::encode_front(payload.size(), fields, front);
  if (front.size() > wire::limits::max_segmented_head_bytes) {
    throw PayloadTooLargeError("the metadata of the message are " + std::to_string(front.size()) +
                               " bytes; the limit is " + std::to_string(wire::limits::max_segmented_head_bytes));
  }
  const bool waiting = send_message(target, PrefixedSource(front.view(), payload), options, progress);
  return {fields.message_id, waiting};
}

void Runtime::refuse_large(const SendOptions& options) {
  const NotAvailableError error("what no envelope holds is neither signed, encrypted nor described: send it in parts");
  if (context.guard != nullptr) context.guard->tell_not_written(fields_of(options), options.protection, error);
  throw error;
}

bool Runtime::send_message(const std::string& target, const segment::Source& message, const SendOptions& options,
                           const Progress& progress) {
  constexpr auto type = wire::EnvelopeType::message;
  const Duration timeout = duration_of("timeout", options.timeout);
  if (message.size() > wire::limits::max_payload_bytes) {
    if (options.ack) return large.send_acknowledged(target, type, message, timeout, progress, options.unordered);
    large.send(target, type, message, timeout, progress, options.unordered);
    return false;
  }
  Bytes room;
  const ByteView one = message.read(0, message.size(), room);
  bool waiting = false;
  if (options.ack) {
    Waiter waiter;
    calls.send_acknowledged(target, type, one, timeout, options.unordered, waiter.completion());
    waiting = waiter.result(workers) == Value(true);
  } else {
    const TimePoint deadline = fs::monotonic_now() + timeout;
    links.granted(target, deadline)->send({type, 0, {&one, 1}, deadline, false, {}, options.unordered});
  }
  if (progress) progress(message.size(), message.size());
  return waiting;
}

void Runtime::encode(const Value& payload, const wire::MessageFields& fields, const Protection& protection,
                     wire::Buffer& out) const {
  if (!protects(protection)) return wire::encode_message(payload, fields, out);
  if (context.guard != nullptr) return context.guard->write(payload, fields, protection, out);
  message::Guard({}, context.name).write(payload, fields, protection, out);  // it has no keys, and says so
}

void Runtime::encode(std::string_view media_type, wire::Buffer content, const wire::MessageFields& fields,
                     const Protection& protection, wire::Buffer& out) const {
  if (!protects(protection)) return wire::encode_message(media_type, content.view(), fields, out);
  if (context.guard != nullptr) return context.guard->write(media_type, std::move(content), fields, protection, out);
  message::Guard({}, context.name).write(media_type, std::move(content), fields, protection, out);
}

bool Runtime::protects(const Protection& protection) const {
  return context.guard == nullptr ? message::asks(protection) : context.guard->protects(protection);
}

wire::MessageFields Runtime::fields_of(const SendOptions& options) {
  wire::MessageFields fields;
  stamp(fields);
  fields.topic = options.topic;
  fields.name_space = context.name_space;
  fields.priority = options.priority;
  fields.ttl_seconds = options.ttl_seconds;
  fields.correlation_id = options.correlation_id;
  fields.causality_parent = options.causality_parent;
  fields.publisher_id = context.name;
  fields.traceparent = options.traceparent ? options.traceparent : current_traceparent;
  fields.labels = options.labels;
  fields.baggage = options.baggage;
  if (options.protection.schema) fields.schema = schema_fields(*options.protection.schema);
  fields.extensions = options.extensions;
  return fields;
}

void Runtime::stamp(wire::MessageFields& fields) {
  fields.published_at_ms = fs::unix_ms();
  fields.message_id = wire::new_message_id(static_cast<std::uint64_t>(fields.published_at_ms), random_bytes());
}

}  // namespace speed::engine
