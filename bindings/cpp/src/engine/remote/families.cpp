#include "engine/remote/families.hpp"

#include <algorithm>
#include <random>

#include "core/texts.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "wire/names/names.hpp"

namespace speed::engine {

namespace {

constexpr Duration max_age = 1s;  // joins and leaves are told at once; a grant is seen after this

core::FamilyMember member_of(const wire::Entry& entry) { return {entry.name, entry.generation}; }

// Anyone, so that callers do not all begin with the same.
const std::string& any_of(const std::vector<std::string>& names) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return names[std::uniform_int_distribution<std::size_t>(0, names.size() - 1)(random)];
}

}  // namespace

std::string Families::take(const std::string& family, const std::optional<std::string>& key,
                           std::set<core::FamilyMember>& tried) {
  std::vector<core::FamilyMember> rest = untried(able(family), tried);
  if (rest.empty()) {
    look(true);  // one may have joined just now
    rest = untried(able(family), tried);
  }
  if (rest.empty()) rest = untried(starting(family), tried);  // it is waited for
  if (rest.empty()) throw_nobody(family);
  std::vector<std::string> names;
  for (const core::FamilyMember& one : rest) names.push_back(one.name);
  const MutexLock guard(lock_);
  const auto last = last_.find(family);
  std::string name = core::chosen(names, under_way_, last == last_.end() ? any_of(names) : last->second, key);
  if (!key) last_[family] = name;
  ++under_way_[name];
  tried.insert(*std::ranges::find(rest, name, &core::FamilyMember::name));
  return name;
}

std::vector<core::FamilyMember> Families::untried(std::vector<core::FamilyMember> found,
                                                  const std::set<core::FamilyMember>& tried) {
  const MutexLock guard(lock_);
  const TimePoint now = fs::monotonic_now();
  std::erase_if(left_, [&](const auto& one) { return one.second <= now; });
  std::erase_if(found, [&](const core::FamilyMember& one)
                           SPEED_REQUIRES(lock_) { return tried.contains(one) || left_.contains(one); });
  return found;
}

void Families::ended(const std::string& member) {
  const MutexLock guard(lock_);
  const auto found = under_way_.find(member);
  if (found != under_way_.end() && --found->second == 0) under_way_.erase(found);
}

void Families::left(const core::FamilyMember& member) {
  const MutexLock guard(lock_);
  left_[member] = fs::monotonic_now() + max_age;
}

std::vector<core::FamilyMember> Families::able(const std::string& family) {
  std::vector<core::FamilyMember> found;
  for (const wire::Entry& entry : members(family)) {
    if (context_.is_granted_by(entry)) found.push_back(member_of(entry));
  }
  return found;
}

// What they do not grant yet is not final.
std::vector<core::FamilyMember> Families::starting(const std::string& family) {
  std::vector<core::FamilyMember> found;
  std::ranges::transform(members(family, "starting"), std::back_inserter(found), member_of);
  return found;
}

std::vector<wire::Entry> Families::members(const std::string& family, std::string_view status) {
  look();
  std::vector<wire::Entry> found;
  const MutexLock guard(lock_);
  std::ranges::copy_if(entries_, std::back_inserter(found), [&](const wire::Entry& entry) {
    return entry.status == status && wire::matches(family, entry.name);
  });
  return found;
}

// At the registry, if something changed there or may have, or `again`.
void Families::look(bool again) {
  bool begins = false;
  {
    const MutexLock guard(lock_);
    begins = !std::exchange(watches_, true);
    if (!again && !changed_ && fs::monotonic_now() - looked_at_ <= max_age) return;
  }
  if (begins) {
    registrar_->on_join([this](const NodeInfo&) { changed_ = true; });
    registrar_->on_leave([this](const NodeInfo&) { changed_ = true; });
  }
  changed_ = false;  // before: what changes while it is read is read again
  std::vector<wire::Entry> entries = context_.registry->surely_live_entries();
  const MutexLock guard(lock_);
  entries_ = std::move(entries);
  looked_at_ = fs::monotonic_now();
}

void Families::throw_nobody(const std::string& family) {
  const std::vector<wire::Entry> group = members(family);
  if (!group.empty() && able(family).empty()) {
    AccessDeniedError denied("'" + group.front().name + "' does not allow '" + context_.name +
                             "', nor does another node of '" + family + "'; their owner must allow '" + context_.name +
                             "'");
    denied.set_execution(Execution::not_begun);
    throw denied;
  }
  UnknownNodeError unknown("no node of '" + family + "' is there: start one, or see `speed nodes`");
  unknown.set_execution(Execution::not_begun);
  throw unknown;
}

std::string Walk::take() {
  try {
    return families_.take(family_, key_, tried_);
  } catch (const Error&) {
    if (error_ != nullptr) std::rethrow_exception(error_);
    throw;
  }
}

void Walk::failed(const std::exception_ptr& error, const std::string& member) {
  std::string_view code;
  try {
    std::rethrow_exception(error);
  } catch (Error& known) {
    known.set_called(member, known.service());
    code = known.code();
    if (!core::passes_on(code, known.execution())) throw;
  }
  error_ = error;
  if (code == "SERVICE_NOT_FOUND" || code == "ACCESS_DENIED" || code == "NODE_STARTING") return;
  const auto found = std::ranges::find(tried_, member, &core::FamilyMember::name);
  if (found != tried_.end()) families_.left(*found);
}

}  // namespace speed::engine
