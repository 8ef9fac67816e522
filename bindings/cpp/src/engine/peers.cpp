#include "engine/peers.hpp"

#include <sodium.h>

#include <optional>

#include "fs/clock.hpp"
#include "speed/error.hpp"

namespace speed::engine {

namespace {

using wire::Verdict;

constexpr Duration believed = 1s;  // how long a verdict stands before statements are looked at again
constexpr std::size_t max_verdicts = 1024;
constexpr std::size_t max_card_bytes = 256;
constexpr std::int64_t ms_per_second = 1000;

std::string fingerprint_of(const wire::Card& card) {
  return wire::to_hex(wire::fingerprint_of(card.signing, card.exchange));
}

std::vector<wire::Key> resting_keys(const wire::NodeIdentity& identity, const wire::Keyring& keyring) {
  std::vector<wire::Key> keys;
  for (const wire::Key& key : keyring.now()->keys) keys.push_back(identity.resting_key(key));
  return keys;
}

// WireError BAD_IDENTITY.
wire::Card card_in(const std::string& text, const std::string& name) {
  Bytes data(max_card_bytes);
  std::size_t size = 0;
  const char* end = nullptr;
  const int failed = sodium_base642bin(wire::raw(std::span<std::byte>(data)), data.size(), text.data(), text.size(),
                                       nullptr, &size, &end, sodium_base64_VARIANT_ORIGINAL);
  if (failed != 0 || end != text.data() + text.size()) throw WireError("BAD_IDENTITY", "no card of a node");
  return wire::read_card(ByteView(data).first(size), wire::node_id(name));
}

[[noreturn]] void refuse(Verdict verdict, const std::string& name, const std::string& fingerprint) {
  const std::string shown = (fingerprint.empty() ? "" : ": " + fingerprint) + "; nothing was written to it";
  const auto text = [&](const char* what) { return "'" + name + "' " + what + shown; };
  switch (verdict) {
    case Verdict::changed: throw IdentityChangedError(text("has another identity than the one that is known"));
    case Verdict::revoked: throw IdentityRevokedError(text("has an identity that was revoked"));
    case Verdict::expired:
      throw IdentityExpiredError(text("has an identity that was vouched for until a time that has passed"));
    case Verdict::missing: throw IdentityMissingError(text("comes without the identity that it is to have"));
    default: throw IdentityUnvouchedError(text("has an identity that no owner vouches for"));
  }
}

}  // namespace

Peers::Peers(std::string root, const std::string& path, const AccessPolicy& policy, fs::KeySource& keys,
             const LogLimiter& log)
    : source(path),
      own(wire::to_hex(source.now()->fingerprint())),
      root_(std::move(root)),
      policy_(policy),
      log_(log),
      known_(source.path()),
      resting_(resting_keys(*source.now(), keys.keyring())) {
  resting_.look_with([&keys] { keys.look_soon(); });
  keys.tell_with([this, &keys] { resting_.take(resting_keys(*source.now(), keys.keyring())); });
}

std::string Peers::card(const std::string& name) const {
  return wire::to_base64(wire::make_card(*source.now(), wire::node_id(name)));
}

wire::BondPtr Peers::bond(const std::string& name, const wire::Entry* entry, bool is_answer) {
  const bool is_met = !is_answer || policy_.allows(name);
  if (entry == nullptr || entry->identity.empty()) {
    check(name, "", is_met);
    const MutexLock guard(lock_);
    bonds_.erase(name);
    return nullptr;
  }
  wire::BondPtr bond = bond_of(name, entry->identity);
  check(name, bond->fingerprint, is_met);
  return bond;
}

wire::BondPtr Peers::bond_of(const std::string& name, const std::string& card) {
  const std::uint64_t changes = source.changes();
  const MutexLock guard(lock_);
  Bound& bound = bonds_[name];
  if (bound.bond != nullptr && bound.card == card && bound.changes == changes) return bound.bond;
  try {
    const fs::IdentityPtr identity = source.now();
    const wire::Card to = card_in(card, name);
    identity->agree(to.exchange);  // weak keys are no keys; found before anything is written
    identity->agree(to.renewed);
    bound = {card, changes, std::make_shared<const wire::Bond>(wire::Bond{identity, to, fingerprint_of(to)})};
    return bound.bond;
  } catch (const WireError& error) {
    bonds_.erase(name);
    throw IdentityError("the card of '" + name + "' cannot be used: " + error.what());
  }
}

void Peers::check(const std::string& name, const std::string& fingerprint, bool is_met) {
  const Verdict found = verdict(name, fingerprint, is_met);
  if (found != Verdict::accepted) refuse(found, name, fingerprint);
}

wire::Verdict Peers::verdict(const std::string& name, const std::string& fingerprint, bool is_met) {
  std::vector<std::string> grants = policy_.fingerprints(name);
  const TimePoint now = fs::monotonic_now();
  const MutexLock guard(lock_);
  const std::string key = name + "@" + fingerprint;
  const auto found = judged_.find(key);
  const auto accepted = [](Verdict verdict) { return verdict == Verdict::first ? Verdict::accepted : verdict; };
  if (found != judged_.end() && now < found->second.until && found->second.grants == grants &&
      !(is_met && found->second.verdict == Verdict::first)) {
    return accepted(found->second.verdict);
  }
  const Verdict verdict = judge(name, fingerprint, grants, is_met);
  if (found == judged_.end() && judged_.size() >= max_verdicts) judged_.clear();
  judged_[key] = {now + believed, std::move(grants), verdict};
  return accepted(verdict);
}

wire::Verdict Peers::judge(const std::string& name, const std::string& fingerprint,
                           const std::vector<std::string>& grants, bool is_met) {
  const std::vector<std::string> owners = source.now()->owners();
  wire::Evidence evidence{grants, known_.of(name), std::nullopt, !owners.empty()};
  if (!owners.empty()) evidence.statement = fs::statement_of(root_, name, owners);
  evidence.now = static_cast<std::uint64_t>(fs::unix_ms() / ms_per_second);
  const Verdict verdict = wire::judge(fingerprint, evidence);
  // What a statement says is remembered: it may be removed, or an older one put back.
  if (const wire::Statement* const stated = wire::current(evidence)) {
    remember(name, {stated->fingerprint, stated->issued, stated->kind == wire::Statement::Kind::revoked});
    return verdict;
  }
  const bool is_new = !evidence.known && !fingerprint.empty();
  if (verdict == Verdict::accepted && is_new) remember(name, {fingerprint});
  if (verdict != Verdict::first || !is_met) return verdict;
  // Nobody is met for the first time who cannot be remembered.
  return remember(name, {fingerprint}) ? Verdict::accepted : Verdict::unvouched;
}

// False where it cannot be kept; why is said once.
bool Peers::remember(const std::string& name, const wire::KnownIdentity& learnt) {
  std::string why = "too many identities are known";
  try {
    if (known_.remember(name, learnt)) return true;
  } catch (const KeyFileError& error) {
    why = error.what();
  }
  if (warned_.insert(why).second) {
    log_.always(LogLevel::warning, "speed.protocol", "the identity of '" + name + "' is not remembered: " + why);
  }
  return false;
}

std::string fingerprint_in(const wire::Entry& entry) {
  if (entry.identity.empty()) return {};
  try {
    return fingerprint_of(card_in(entry.identity, entry.name));
  } catch (const WireError&) {
    return {};
  }
}

}  // namespace speed::engine
