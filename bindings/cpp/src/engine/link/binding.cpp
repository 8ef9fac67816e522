// The part of Links that opens a link, for the life and the identity that its target has (W-10, I-4).
#include "core/counters.hpp"
#include "engine/link/outgoing.hpp"
#include "speed/error.hpp"

namespace speed::engine {

namespace {

std::uint32_t life_in(const fs::EntryPtr& entry) {
  return entry != nullptr && entry->ephemeral ? static_cast<std::uint32_t>(entry->generation) : 0;
}

}  // namespace

LinkPtr Links::open(const std::string& target, std::uint32_t generation) {
  LinkPtr link = known(target);
  if (link != nullptr && link->generation() >= generation) return link;
  const Side side = side_of(target);  // without the lock: whose it is may have to be remembered on disk
  if (link == nullptr) link = made(target, generation, side);
  if (link->generation() >= generation) return link;
  link->renew(side.life, side.bond);  // takes the locks of the link, so the table is not locked
  link->take_slots(takes_slots(target));
  const MutexLock guard(lock_);
  link->reaches(generation);
  return link;
}

LinkPtr Links::known(const std::string& target) {
  const MutexLock guard(lock_);
  check_going_on();
  const auto found = links_.find(target);
  if (found == links_.end()) return nullptr;
  if (awake_.contains(found->second.get())) awake_.use(found->second.get(), context_.most_links());
  return found->second;
}

// Another thread may have made it meanwhile.
LinkPtr Links::made(const std::string& target, std::uint32_t generation, const Side& side) {
  const MutexLock guard(lock_);
  check_going_on();
  LinkPtr& link = links_[target];
  if (link != nullptr) return link;
  const OutgoingLink::Others others{[this](OutgoingLink& one) { woken(one); },
                                    [this](OutgoingLink& full) { return make_space(full); }};
  link = std::make_shared<OutgoingLink>(context_, target, side.life, side.bond, others);
  if (const auto cutting = splitters_.find(target); cutting != splitters_.end()) link->cut(cutting->second);
  link->reaches(generation);
  link->take_slots(takes_slots(target));
  return link;
}

// As the entry of the target says; IdentityError, and nothing is written.
Links::Side Links::side_of(const std::string& target) const {
  const fs::EntryPtr entry = context_.registry->live(target);
  return {life_in(entry), context_.peers == nullptr ? nullptr : context_.peers->bond(target, entry.get(), true)};
}

// Its target may have another card by now, or be judged in another way.
void Links::bind(OutgoingLink& link, const wire::Entry& entry) const {
  if (context_.peers != nullptr) link.seal_by(context_.peers->bond(link.target(), &entry));
}

// For links that only answer: nobody looks at the entry of their target before. One that changed is refused elsewhere.
void Links::look_at_card(OutgoingLink& link, const wire::Entry& entry) const {
  try {
    if (context_.peers == nullptr || static_cast<std::uint32_t>(entry.generation) != link.generation()) return;
    link.seal_by(context_.peers->bond(link.target(), &entry, true));
  } catch (const IdentityError&) {
    context_.stats.count(core::counters::sends_denied);
  }
}

}  // namespace speed::engine
