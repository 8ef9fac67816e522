// The part of Calls for servers that are gone, or were replaced (S-21). What had not begun is sent again, by whoever reads,
// or by a worker where that could take its time; the caller waits as for any answer.
#include <algorithm>

#include "core/counters.hpp"
#include "core/texts.hpp"
#include "engine/call/calls.hpp"
#include "fs/clock.hpp"
#include "fs/registry/claim.hpp"
#include "speed/error.hpp"
#include "wire/value/spc.hpp"

namespace speed::engine {

namespace {

using RequestState = core::SentRequest::State;

constexpr Duration successor_look_period = 10ms;  // between two looks at a node that is awaited
constexpr std::size_t inline_request_bytes = 64 << 10;  // written by whoever reads
constexpr std::size_t spare_request_bytes = 64 << 10;  // of a buffer that is kept

std::uint32_t generation_of(const fs::EntryPtr& entry) {
  return entry == nullptr ? 0 : static_cast<std::uint32_t>(entry->generation);
}

std::exception_ptr withdrawn_call(bool may_have_run) {
  CallWithdrawnError error("it was withdrawn before it was written again",
                           {{"phase", may_have_run ? "running" : "queued"}});
  error.set_execution(may_have_run ? Execution::may_have_run : Execution::not_begun);
  return std::make_exception_ptr(error);
}

std::exception_ptr call_denied(const std::string& target, const std::string& name) {
  AccessDeniedError error(core::texts::not_allowed(target, name));
  error.set_execution(Execution::not_begun);
  return std::make_exception_ptr(error);
}

}  // namespace

// --- what is kept ---

// Takes the payload over; false where that is too much.
bool Calls::keep(core::SentRequest& request, wire::Buffer& payload) const {
  if (payload.capacity() > payload.size() + spare_request_bytes) {  // of a larger one before
    wire::Buffer fitting = context_.buffers.take(payload.size());
    if (fitting.capacity() < payload.capacity()) {
      fitting.append(payload.view());
      std::swap(fitting, payload);
    }
    context_.buffers.give(std::move(fitting));
  }
  if (!kept_->take(payload.capacity())) return false;
  request.payload = std::move(payload);
  request.keeper = kept_;
  return true;
}

void Calls::look_by(TimePoint at) { look_at_ = std::min(look_at_.load(), at); }

void Calls::wait_for_start(const Call& call, const std::string& id, core::SentRequest& request, wire::Buffer payload) {
  if (!keep(request, payload)) throw still_starting(call.target);
  const TimePoint now = fs::monotonic_now();
  {
    const MutexLock guard(lock_);
    request.state = RequestState::waits;
    request.is_awaited = true;
    request.since = now;
    if (core::PendingCall* const waiting = table_.find(id)) table_.set_deadline(*waiting, request.until);
    look_by(now + successor_look_period);
  }
  effects_.wake_by(now + successor_look_period);
}

// --- what is known ---

void Calls::server_left(const std::string& name, std::uint32_t generation) {
  const MutexLock guard(lock_);
  table_.each([&](const std::string&, core::PendingCall& call) {
    if (call.target == name && call.request != nullptr && call.request->generation == generation) {
      call.request->server_left = true;
    }
  });
}

bool Calls::has_older(const std::string& name, std::uint32_t generation) const {
  const MutexLock guard(lock_);
  return table_.any([&](const core::PendingCall& call) {
    return call.target == name && call.request != nullptr && call.request->state == RequestState::written &&
           call.request->generation < generation;
  });
}

// Whether the process that a call was written to begins nothing more.
bool Calls::is_over(const std::string& name, const core::SentRequest& request) const {
  if (request.server_left || context_.registry->is_gone(*request.server)) return true;
  try {
    return fs::Claims(context_.root, name, context_.keyring()).is_released(request.generation).value_or(false);
  } catch (const std::system_error&) {
    return false;
  }
}

// --- settling ---

fs::Decision Calls::decide(const std::string& name, const core::SentRequest& request, bool is_gone) const {
  return fs::deciding(wire::lane_dir(context_.root, name, context_.name), request.generation, is_gone,
                      context_.keyring().lane_keys(context_.id, wire::node_id(name)));
}

// How a call ended whose deadline passed before anybody noticed that its server is gone; null if that is there.
std::exception_ptr Calls::settled_late(const core::PendingCall& call, Decisions& decisions) const {
  if (call.request == nullptr) return nullptr;
  {
    const MutexLock guard(lock_);  // it may be written again just now
    if (call.request->state != RequestState::written) return nullptr;
  }
  if (!is_over(call.target, *call.request)) return nullptr;
  const core::SentRequest& request = *call.request;
  const auto [decision, is_new] = decisions.try_emplace({call.target, request.generation});
  if (is_new) decision->second = decide(call.target, request, true);
  const fs::Verdict verdict = fs::judge({request.generation, request.sequences(), request.needed}, decision->second);
  return call_left(call.target, request.may_have_run || verdict != fs::Verdict::not_begun);
}

void Calls::settle(const std::string& name, std::uint64_t entered, const fs::EntryPtr& live) {
  if (live == nullptr) fail_others(name, entered);
  std::vector<Open> open;
  {
    const MutexLock guard(lock_);
    table_.each([&](const std::string& id, core::PendingCall& call) {
      const bool is_over = call.target == name && call.number <= entered && call.request != nullptr &&
                           call.request->state == RequestState::written &&
                           (live == nullptr || call.request->generation < generation_of(live));
      if (is_over) open.push_back({id, name, call.request, call.number});
    });
  }
  std::ranges::sort(open, {}, &Open::number);
  std::map<std::uint32_t, fs::Decision> decisions;
  for (const Open& one : open) {
    const core::SentRequest& request = *one.request;
    const auto [decision, is_new] = decisions.try_emplace(request.generation);
    if (is_new) decision->second = decide(name, request, is_over(name, request));
    conclude(one, decision->second, live != nullptr);
  }
}

// Questions, and messages that wait for their acknowledgement.
void Calls::fail_others(const std::string& name, std::uint64_t entered) {
  std::vector<core::PendingCall> lost;
  {
    const MutexLock guard(lock_);
    lost = table_.take_if([&](const core::PendingCall& call) {
      return call.target == name && call.number <= entered && call.request == nullptr;
    });
  }
  for (const core::PendingCall& call : lost) {
    call.completion(std::make_exception_ptr(NodeLeftError(core::texts::left_unanswered(name))));
  }
}

// Its successor may not have opened the lane yet: what does not decide is looked at again for a while.
void Calls::conclude(const Open& open, const fs::Decision& decision, bool is_replaced) {
  core::SentRequest& request = *open.request;
  const fs::Verdict verdict = fs::judge({request.generation, request.sequences(), request.needed}, decision);
  const TimePoint now = fs::monotonic_now();
  {
    const MutexLock guard(lock_);
    core::PendingCall* const call = table_.find(open.id);
    if (call == nullptr) return;
    if (is_replaced && decision.kind == fs::Decision::Kind::unknown) {
      if (!request.since) request.since = now;
      look_by(now + successor_look_period);
      if (now - *request.since < wire::limits::successor) return;
    }
    request.may_have_run = request.may_have_run || verdict != fs::Verdict::not_begun;
    const bool goes_on = verdict != fs::Verdict::may_have_run && request.keeper != nullptr && !request.is_withdrawn;
    if (goes_on && now < request.until) {
      request.state = RequestState::waits;
      request.is_awaited = false;
      request.since = now;
      table_.set_deadline(*call, request.until);
      look_at_ = TimePoint();
      return;
    }
  }
  end(open.id, call_left(open.target, request.may_have_run));
}

void Calls::end(const std::string& id, std::exception_ptr why) {
  std::optional<core::PendingCall> call;
  {
    const MutexLock guard(lock_);
    call = table_.take(id);
  }
  if (call) call->completion(std::move(why));
}

// --- successors ---

void Calls::look_again(TimePoint now) {
  if (now < look_at_.load()) return;
  std::vector<Open> waiting;
  std::set<std::string> undecided;
  {
    const MutexLock guard(lock_);
    look_at_ = never;
    table_.each([&](const std::string& id, core::PendingCall& call) {
      if (call.request == nullptr) return;
      if (call.request->state == RequestState::waits) waiting.push_back({id, call.target, call.request, call.number});
      if (call.request->state == RequestState::written && call.request->since) undecided.insert(call.target);
    });
  }
  std::ranges::sort(waiting, {}, &Open::number);  // they begin in the order in which they were made (S-5)
  for (const std::string& target : undecided) effects_.look_at(target);
  std::map<std::string, fs::EntryPtr> entries;
  for (const Open& open : waiting) {
    const auto [entry, is_new] = entries.try_emplace(open.target);
    if (is_new) entry->second = context_.registry->live(open.target);
    look_for_successor(open, entry->second, now);
  }
}

void Calls::look_for_successor(const Open& open, const fs::EntryPtr& entry, TimePoint now) {
  core::SentRequest& request = *open.request;
  bool is_withdrawn = false;
  const bool is_there = entry != nullptr && entry->status != "leaving" && generation_of(entry) > request.generation;
  {
    const MutexLock guard(lock_);
    if (request.state != RequestState::waits) return;
    request.is_awaited = is_there && entry->status == "starting";
    const bool is_seen = request.server != nullptr && generation_of(request.server) == generation_of(entry);
    if (is_there && !is_seen) request.server = entry;
    if (request.is_awaited || (is_there && !is_seen)) request.since = now;
    if (request.is_awaited || now - *request.since < wire::limits::successor) {
      look_by(now + successor_look_period);
    }
    is_withdrawn = request.is_withdrawn;
    if (request.is_awaited && !is_withdrawn) return;
  }
  if (is_withdrawn) return end(open.id, withdrawn_call(request.may_have_run));
  if (is_there && context_.is_granted_by(*entry)) return send_again(open, entry);
  const bool is_first = request.generation == 0;  // what a node allows when it has started is final
  if (now - *request.since < wire::limits::successor && !(is_there && is_first)) return;
  end(open.id, is_there && !request.may_have_run ? call_denied(open.target, context_.name)
                                                 : call_left(open.target, request.may_have_run));
}

void Calls::send_again(const Open& open, const fs::EntryPtr& server) {
  std::vector<std::uint64_t> segments;
  {
    const MutexLock guard(lock_);
    if (open.request->state != RequestState::waits) return;
    open.request->state = RequestState::is_being_written;
    open.request->segments.swap(segments);
    open.request->needed = 1;
    open.request->server_left = false;
  }
  for (const std::uint64_t sequence : segments)
    forget(open.target, sequence);  // what is said of them means nothing now
  const LinkPtr link = links_.open(open.target, generation_of(server));
  const bool is_quick =
      open.request->payload.size() <= inline_request_bytes && link->splitter() == nullptr && !context_.durable;
  if (is_quick) return write_again(open, server, true);
  effects_.run([this, open, server] { write_again(open, server, false); });
}

void Calls::write_again(const Open& open, const fs::EntryPtr& server, bool urgent) {
  core::SentRequest& request = *open.request;
  try {
    wire::Buffer payload = context_.buffers.take(request.payload.size() + wire::limits::max_head_bytes);
    wire::encode_again(request.payload.view(), generation_of(server), request.may_have_run, payload);
    links_.check_size(open.target, payload.size());
    send(links_.open(open.target, generation_of(server)), open.id, request, payload.view(), urgent);
    std::exchange(request.keeper, nullptr)->give(std::move(request.payload));
    written(open.id, request, server, std::move(payload));
    context_.stats.count(core::counters::calls_sent_again);
  } catch (const InboxFullError&) {
    const TimePoint now = fs::monotonic_now();
    {
      const MutexLock guard(lock_);
      request.state = RequestState::waits;
      request.since = now;
      look_by(now + successor_look_period);
    }
    effects_.wake_by(now + successor_look_period);
  } catch (Error& error) {
    error.set_execution(request.may_have_run ? Execution::may_have_run : Execution::not_begun);
    end(open.id, std::current_exception());
  } catch (const std::exception&) {
    end(open.id, call_left(open.target, request.may_have_run));
  }
}

}  // namespace speed::engine
