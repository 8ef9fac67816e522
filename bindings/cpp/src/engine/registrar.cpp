#include "engine/registrar.hpp"

#include <utility>

#include "core/counters.hpp"
#include "fs/bell.hpp"
#include "fs/clock.hpp"
#include "fs/registry/observers.hpp"
#include "speed/error.hpp"

namespace speed::engine {

namespace {

constexpr Duration liveness_period = 1s;  // how often nodes with open calls are looked at
constexpr Duration poll_period = 250ms;    // how often the registry is, where it cannot be watched

}  // namespace

NodeInfo info_of(const wire::Entry& entry) {
  return {entry.name,
          static_cast<std::uint32_t>(entry.generation),
          entry.pid,
          entry.host,
          entry.status,
          entry.language,
          entry.fabrics,
          entry.allow,
          entry.deny,
          entry.subscriptions,
          entry.pid_start,
          entry.pid_namespace,
          entry.boot_id,
          entry.startup_timestamp,
          entry.last_heartbeat,
          entry.heartbeat_monotonic_ms,
          entry.lease,
          entry.heartbeat_interval,
          entry.version,
          entry.features,
          entry.ephemeral,
          entry.shared,
          entry.observers,
          entry.identity,
          entry.identities};
}

Registrar::Registrar(Context& context, Workers& workers, Duration heartbeat)
    : context_(context), workers_(workers), heartbeat_(heartbeat), watch_(wire::registry_dir(context.root)) {}

Registrar::~Registrar() {
  if (thread_.joinable()) thread_.detach();
}

void Registrar::start(Effects effects, const std::shared_ptr<void>& owner) {
  effects_ = std::move(effects);
  thread_ = std::thread([this, kept = owner]() mutable {
    fs::block_signals();
    fs::name_thread("speed-registry");
    run();
    watch_.close();
    kept.reset();
  });
}

void Registrar::stop() {
  watch_.wake();
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Registrar::look_at_lease() { watch_.wake(); }

void Registrar::release() {
  std::vector<HandlerPtr> joins;  // destroyed outside of the lock
  std::vector<HandlerPtr> leaves;
  const MutexLock guard(lock_);
  joins.swap(join_handlers_);
  leaves.swap(leave_handlers_);
}

void Registrar::on_join(Node::NodeHandler handler) {
  workers_.serve();
  const MutexLock guard(lock_);
  begin_watching();
  join_handlers_.push_back(std::make_shared<const Node::NodeHandler>(std::move(handler)));
}

void Registrar::on_leave(Node::NodeHandler handler) {
  workers_.serve();
  const MutexLock guard(lock_);
  begin_watching();
  leave_handlers_.push_back(std::make_shared<const Node::NodeHandler>(std::move(handler)));
}

// The first reading tells nothing; the registry thread then sets the watch and reads again, so that nothing is missed.
void Registrar::begin_watching() {
  if (watching_) return;
  watch_.watch();
  view_.update(context_.registry->surely_live_entries());
  watching_ = true;
}

void Registrar::run() {
  TimePoint next_heartbeat = fs::monotonic_now() + heartbeat_;
  bool counted = false;
  while (!context_.life.has_ended()) {
    if (watch_.is_polling() && !std::exchange(counted, true)) context_.stats.count(core::counters::registry_polled);
    const Duration pause = watch_.is_polling() ? poll_period : liveness_period;  // inotify's limits are low
    watch_.wait(std::max(Duration::zero(), std::min(pause, next_heartbeat - fs::monotonic_now())));
    if (context_.life.has_ended()) return;
    if (fs::monotonic_now() >= next_heartbeat || context_.registration->has_new_keys() ||
        context_.registration->is_over()) {
      next_heartbeat = fs::monotonic_now() + heartbeat_;
      if (!renew()) return;
    }
    guarded("changes of the registry", [&] { look(); });
    guarded("nodes that are waited for", [&] { check_callees(); });
    guarded("what is left of others", [&] { effects_.sweep(); });
  }
}

// Whatever of it fails, the lease is renewed: without this thread the name would be lost.
template <class Part>
void Registrar::guarded(const char* what, Part part) {
  try {
    part();
  } catch (const std::exception& error) {
    context_.stats.count(core::counters::registry_failures);
    context_.log.limited(LogLevel::error, "speed.registry", what,
                         std::string(what) + " cannot be looked at, it is tried again: " + error.what());
  }
}

// One heartbeat; false once the name is lost. A failed write is tried again until the lease ends.
bool Registrar::renew() {
  guarded("who may look", [&] { look_at_observers(); });
  context_.buffers.tidy();
  look_at_keys();
  guarded("the identity file", [&] { look_at_identity(); });
  const std::uint64_t restored = context_.registration->claims_restored();
  try {
    context_.registration->heartbeat();
  } catch (const LeaseLostError&) {
    effects_.lost(std::current_exception());
    return false;
  } catch (const std::exception&) {
    context_.stats.count(core::counters::heartbeats_failed);
  }
  if (context_.registration->claims_restored() > restored) {
    context_.stats.count(core::counters::claims_restored);
    context_.log.limited(LogLevel::warning, "speed.registry", "claims_restored",
                         "the claim of this node was removed, and made again: nobody but the node may remove it");
  }
  return true;
}

// Takes observers that changed. A file that does not count names none, which is said once.
void Registrar::look_at_observers() {
  std::vector<std::string> found;
  std::string wrong;
  try {
    found = fs::observers_of(context_.root);
  } catch (const ConfigurationError& error) {
    wrong = error.what();
  }
  if (wrong != std::exchange(refused_observers_, wrong) && !wrong.empty()) {
    context_.log.always(LogLevel::warning, "speed.registry", wrong);
  }
  if (found == context_.registration->entry().observers) return;
  context_.observers.replace(std::move(found));
  context_.registration->update([&](wire::Entry& entry) {
    entry.observers = context_.observers.names();
    entry.deny = context_.observers.denials(context_.policy);
  });
}

// Takes keys that changed; what is wrong with their file is said once, and again after it was mended (W-20).
void Registrar::look_at_keys() { tell_refused(context_.keys->look(), refused_); }

void Registrar::tell_refused(const std::string& wrong, std::string& last) {
  if (!wrong.empty()) context_.stats.count(core::counters::key_files_refused);
  if (std::exchange(last, wrong) == wrong || wrong.empty()) return;
  context_.log.always(LogLevel::warning, "speed.registry", "goes on with the keys that it has: " + wrong);
}

// Likewise exchange keys that were renewed: others seal for what the entry says.
void Registrar::look_at_identity() {
  if (context_.peers == nullptr) return;
  tell_refused(context_.peers->source.look(), refused_identity_);
  const std::uint64_t changes = context_.peers->source.changes();
  if (changes == identity_changes_) return;
  const std::string card = context_.peers->card(context_.name);
  context_.registration->update([&](wire::Entry& entry) { entry.identity = card; });
  identity_changes_ = changes;
}

void Registrar::look() {
  std::vector<core::RegistryChange> changes;
  try {
    const MutexLock guard(lock_);
    if (!watching_) return;
    changes = view_.update(context_.registry->surely_live_entries());
  } catch (const StorageError&) {
    context_.stats.count(core::counters::registry_unlisted);  // what was seen last holds until the next look
    return;
  }
  for (const core::RegistryChange& change : changes) {
    if (change.entry.name != context_.name) tell(change);
  }
}

void Registrar::tell(const core::RegistryChange& change) {
  const bool left = change.kind == core::RegistryChange::Kind::left;
  // Who calls a successor already must not hear of its predecessor's end.
  if (left) {
    const fs::EntryPtr successor = context_.registry->live(change.entry.name);
    if (successor == nullptr) effects_.left(change.entry.name);
    else effects_.there(change.entry.name, static_cast<std::uint32_t>(successor->generation));
  }
  std::vector<HandlerPtr> handlers;
  {
    const MutexLock guard(lock_);
    handlers = left ? leave_handlers_ : join_handlers_;
  }
  for (const HandlerPtr& handler : handlers) {
    workers_.submit([this, one = std::weak_ptr(handler), info = info_of(change.entry)] {
      const ProgramsCode scope(*context_.fork_mark);
      try {
        if (const HandlerPtr kept = one.lock()) (*kept)(info);
      } catch (...) {
        context_.callback_failed("a handler of on_join or on_leave");
      }
    });
  }
}

void Registrar::check_callees() {
  for (const std::string& target : effects_.callees()) {
    if (const fs::EntryPtr entry = context_.registry->surely_live(target)) {
      effects_.there(target, static_cast<std::uint32_t>(entry->generation));
    } else {
      effects_.left(target);
    }
  }
}

}  // namespace speed::engine
