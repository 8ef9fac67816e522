#include "message/key.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "speed/message_error.hpp"
#include "wire/mutex.hpp"
#include "wire/names/names.hpp"

namespace speed::message {

namespace {

constexpr std::size_t x_bytes = 32;
constexpr std::size_t ml_kem_seed_bytes = 64;
constexpr std::size_t x_wing_ml_kem_bytes = 1184;

// Points of Ed25519 whose order is 8 at most, without the bit of x's sign; the last two are 0 and 1 again.
constexpr std::array<std::string_view, 7> small_order{
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
};

using State = MessageKey::State;

[[noreturn]] void refuse(const std::string& id, const std::string& why) {
  throw KeyRefusedError("key '" + id + "'" + why);
}

void check_length(const State& key, std::size_t size, std::size_t needed, const char* part) {
  const bool is_of_its_own = key.algorithm->family == Family::rsa;
  if (size == 0 || size == needed || is_of_its_own) return;
  refuse(key.id, std::string(": its ") + part + " part has " + std::to_string(size) + " bytes and needs " +
                     std::to_string(needed));
}

void check_parts(const State& key) {
  const bool has_public = !key.public_bytes.empty();
  if (!key.has_secret() && (!has_public || key.algorithm->is_symmetric())) {
    refuse(key.id, " has no bytes: give its secret, or its public part");
  }
  check_length(key, key.secret.size(), key.algorithm->secret, "secret");
  check_length(key, key.public_bytes.size(), key.algorithm->public_part, "public");
}

Bytes copied(ByteView bytes) { return {bytes.begin(), bytes.end()}; }

bool is_of_small_order(const Bytes& point) {
  Bytes y = point;
  y.back() &= std::byte{0x7f};
  return std::ranges::find(small_order, wire::to_hex(y)) != small_order.end();
}

void load_ed25519(State& key) {
  if (!key.public_bytes.empty() && is_of_small_order(key.public_bytes)) {
    refuse(key.id, " holds no ed25519 key: make it anew");
  }
  if (!key.has_secret() || !key.public_bytes.empty()) return;
  key.public_bytes.resize(crypto_sign_PUBLICKEYBYTES);
  Secret expanded(crypto_sign_SECRETKEYBYTES);
  crypto_sign_seed_keypair(wire::raw(std::span(key.public_bytes)), wire::raw(expanded.span()),
                           wire::raw(key.secret.view()));
}

// `secret` and `known` are X25519's parts; what is not known follows from the secret.
void load_x25519(State& key, ByteView secret, ByteView known) {
  key.x25519 = Secret(secret);
  key.x25519_public = copied(known);
  if (!known.empty() || secret.empty()) return;
  key.x25519_public.resize(x_bytes);
  crypto_scalarmult_base(wire::raw(std::span(key.x25519_public)), wire::raw(secret));
}

void load_ml_kem(State& key, int parameters, ByteView seed, ByteView known) {
  key.ml_kem = seed.empty() ? MlKemKey::from_public(parameters, known) : MlKemKey::from_seed(parameters, seed);
  if (key.ml_kem == nullptr) refuse(key.id, " holds no " + std::string(key.algorithm->name) + " key: make it anew");
}

void load_rsa(State& key) {
  key.rsa = key.has_secret() ? RsaKey::from_secret(key.secret.view()) : RsaKey::from_public(key.public_bytes);
  if (key.rsa == nullptr || key.rsa->bits() != key.algorithm->output * 8) {
    refuse(key.id, " holds no " + std::string(key.algorithm->name) + " key: make it anew");
  }
  if (key.public_bytes.empty()) key.public_bytes = key.rsa->public_bytes();
}

// X25519's part, then ML-KEM's.
void load_hybrid(State& key) {
  const Secret all = key.secret;
  const ByteView secret = all.view();
  const bool is_secret = key.has_secret();
  const ByteView known = key.public_bytes;
  load_x25519(key, is_secret ? secret.first(x_bytes) : secret, known.empty() ? known : known.first(x_bytes));
  load_ml_kem(key, 1024, is_secret ? secret.last(ml_kem_seed_bytes) : secret,
              known.empty() ? known : known.subspan(x_bytes));
  if (!known.empty()) return;
  key.public_bytes = key.x25519_public;
  wire::append(key.public_bytes, key.ml_kem->public_bytes());
}

// ML-KEM's part, then X25519's; both secrets come from one seed.
void load_x_wing(State& key) {
  const Secret both = key.has_secret() ? shake_256(key.secret.view(), ml_kem_seed_bytes + x_bytes) : Secret();
  const ByteView secret = both.view();
  const ByteView known = key.public_bytes;
  load_ml_kem(key, 768, key.has_secret() ? secret.first(ml_kem_seed_bytes) : secret,
              known.empty() ? known : known.first(x_wing_ml_kem_bytes));
  load_x25519(key, key.has_secret() ? secret.last(x_bytes) : secret, known.empty() ? known : known.last(x_bytes));
  if (!known.empty()) return;
  key.public_bytes = key.ml_kem->public_bytes();
  wire::append(key.public_bytes, key.x25519_public);
}

void load(State& key) {
  switch (key.algorithm->family) {
    case Family::symmetric:
    case Family::hmac: return;
    case Family::ed25519: return load_ed25519(key);
    case Family::rsa: return load_rsa(key);
    case Family::hybrid: return load_hybrid(key);
    case Family::x_wing: return load_x_wing(key);
    case Family::x25519:
      load_x25519(key, Secret(key.secret).view(), key.public_bytes);
      key.public_bytes = key.x25519_public;
      return;
    case Family::ml_kem:
      load_ml_kem(key, key.algorithm->name == "ml-kem-768" ? 768 : 1024, key.secret.view(), key.public_bytes);
      if (key.public_bytes.empty()) key.public_bytes = key.ml_kem->public_bytes();
      return;
  }
}

bool is_id_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool covers(const std::vector<std::string>& patterns, std::string_view text) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return wire::matches(pattern, text); });
}

}  // namespace

bool is_key_id(std::string_view id) {
  return !id.empty() && id.size() <= max_key_id_bytes && std::ranges::all_of(id, is_id_character) && id[0] != '.' &&
         id[0] != '-' && id.find("..") == std::string_view::npos;
}

bool is_available(const Algorithm& algorithm) {
  switch (algorithm.family) {
    case Family::rsa: return RsaKey::is_available();
    case Family::ml_kem:
    case Family::hybrid:
    case Family::x_wing: return MlKemKey::is_available();
    default: return true;
  }
}

MessageKey make_key(State state) {
  if (!is_key_id(state.id)) {
    throw KeyRefusedError("that is no key id: use 1 to " + std::to_string(max_key_id_bytes) + " of [A-Za-z0-9._-]");
  }
  check_parts(state);
  load(state);
  return KeyAccess::make(std::move(state));
}

void check_use(const MessageKey& key, std::string_view name_space, std::string_view topic, std::int64_t at_ms) {
  const KeyBounds& bounds = key.bounds();
  const auto is_named = [&](const std::string& one) { return one == "*" || one == name_space; };
  if (std::ranges::none_of(bounds.namespaces, is_named)) refuse(key.id(), " is not for that namespace");
  if (!covers(bounds.topics, topic)) refuse(key.id(), " is not for that topic");
  if (at_ms < bounds.not_before_ms || (bounds.not_after_ms && at_ms > *bounds.not_after_ms)) {
    refuse(key.id(), " is not valid at that time: rotate it, or wait until it begins");
  }
}

}  // namespace speed::message

namespace speed {

namespace {

message::Secret new_secret(const message::Algorithm& algorithm) {
  if (algorithm.family == message::Family::rsa) return message::RsaKey::generate(algorithm.output * 8);
  return message::Secret::random(algorithm.secret);
}

}  // namespace

MessageKey MessageKey::generate(const std::string& id, std::string_view algorithm, const KeyBounds& bounds) {
  if (sodium_init() < 0) throw ConfigurationError("libsodium cannot start: is there a source of randomness?");
  if (!message::is_key_id(id)) return message::make_key({id, nullptr, {}, {}, bounds});  // refuses
  const message::Algorithm& row = message::algorithm_of(algorithm);
  return message::make_key({id, &row, new_secret(row), {}, bounds});
}

MessageKey MessageKey::public_part() const {
  if (state_->algorithm->is_symmetric()) {
    throw KeyRefusedError("key '" + id() + "' is shared: it has no public part");
  }
  return message::make_key({id(), state_->algorithm, {}, state_->public_bytes, bounds()});
}

const std::string& MessageKey::id() const { return state_->id; }
std::string_view MessageKey::algorithm() const { return state_->algorithm->name; }
const KeyBounds& MessageKey::bounds() const { return state_->bounds; }
bool MessageKey::has_secret() const { return state_->has_secret(); }

struct SPEED_LOCAL KeyStore::State {
  const std::vector<MessageKey>& set_of(const std::string& name) const SPEED_REQUIRES(lock);

  Mutex lock;
  std::map<std::string, std::vector<MessageKey>> sets SPEED_GUARDED_BY(lock);
  std::map<std::string, std::uint64_t> uses SPEED_GUARDED_BY(lock);
};

KeyStore::~KeyStore() = default;

KeyStore::KeyStore(const std::vector<MessageKey>& keys) : state_(std::make_unique<State>()) {
  for (const MessageKey& key : keys) put(key.id(), {key});
}

void KeyStore::put(const std::string& name, std::vector<MessageKey> keys) {
  if (keys.empty()) throw KeyRefusedError("a set without keys can do nothing: give its first key");
  std::ranges::stable_sort(keys, std::ranges::greater(),
                           [](const MessageKey& key) { return key.bounds().not_before_ms; });
  const MutexLock guard(state_->lock);
  state_->sets.insert_or_assign(name, std::move(keys));
}

MessageKey KeyStore::current(const std::string& name, std::string_view name_space, std::string_view topic,
                             std::int64_t now_ms) {
  const MutexLock guard(state_->lock);
  std::string problem;
  for (const MessageKey& key : state_->set_of(name)) {
    try {
      message::check_use(key, name_space, topic, now_ms);
    } catch (const KeyRefusedError& error) {
      if (problem.empty()) problem = error.what();
      continue;
    }
    std::uint64_t& uses = state_->uses[key.id()];
    if (uses >= message::max_key_uses) {
      throw KeyExhaustedError("key '" + key.id() + "' was used " + std::to_string(uses) + " times: rotate it");
    }
    ++uses;
    return key;
  }
  throw KeyRefusedError("key set '" + name + "' has no key for that: " + problem);
}

std::optional<MessageKey> KeyStore::find(std::string_view id) const {
  const MutexLock guard(state_->lock);
  for (const auto& [name, keys] : state_->sets) {
    const auto found = std::ranges::find(keys, id, &MessageKey::id);
    if (found != keys.end()) return *found;
  }
  return std::nullopt;
}

std::vector<MessageKey> KeyStore::all(const std::string& name) const {
  const MutexLock guard(state_->lock);
  return state_->set_of(name);
}

const std::vector<MessageKey>& KeyStore::State::set_of(const std::string& name) const {
  const auto found = sets.find(name);
  if (found == sets.end()) throw KeyUnavailableError("no key set is called '" + name + "': put it into the KeyStore");
  return found->second;
}

}  // namespace speed
