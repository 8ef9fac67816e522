#include "wire/envelope/identity.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>

#include "speed/error.hpp"

namespace speed::wire {

namespace {

constexpr char fix[] = "; make one with `speed key identity new`";
constexpr std::string_view first_line = "SPEED-IDENTITY-V1";
constexpr std::size_t card_keys_bytes = 96;
constexpr std::size_t opening_front_bytes = 192;
constexpr std::size_t statement_front_bytes = 128;

[[noreturn]] void refuse(const char* why) { throw WireError("BAD_IDENTITY", why); }

Bytes joined(std::initializer_list<ByteView> parts) {
  Bytes whole;
  for (const ByteView part : parts) append(whole, part);
  return whole;
}

Block<32> sha256(ByteView data) {
  Block<32> digest;
  crypto_hash_sha256(raw(std::span<std::byte>(digest)), raw(data), data.size());
  return digest;
}

template <std::size_t N>
Block<N> block_at(ByteView data, std::size_t at) {
  Block<N> block;
  copy_to(block.data(), data.subspan(at, N));
  return block;
}

Key agreed(const Key& secret, const PublicKey& other) {
  Key shared;
  if (crypto_scalarmult(raw(std::span<std::byte>(shared)), raw(ByteView(secret)), raw(ByteView(other))) != 0) {
    refuse("an exchange key that is none");
  }
  return shared;
}

bool is_signed(const PublicKey& key, ByteView signature, ByteView data) {
  return crypto_sign_verify_detached(raw(signature), raw(data), data.size(), raw(ByteView(key))) == 0;
}

Key bound_key(const Key& shared, const std::array<Key, 3>& secrets, const BoundLink& link, const Fingerprint& target,
              ByteView front) {
  Bytes input = joined({shared, secrets[0], secrets[1], secrets[2]});
  const Key extracted = hmac(Key{}, input);
  sodium_memzero(input.data(), input.size());
  const std::byte one{1};
  return hmac(extracted,
              joined({view("speed/1 bound link"), link.source, link.target, target, sha256(front), ByteView(&one, 1)}));
}

}  // namespace

Fingerprint fingerprint_of(const PublicKey& signing, const PublicKey& exchange) {
  const Block<32> digest = sha256(joined({view("speed/1 identity"), signing, exchange}));
  return block_at<limits::fingerprint_bytes>(digest, 0);
}

PublicKey public_of(const Key& secret) {
  PublicKey known;
  crypto_scalarmult_base(raw(std::span<std::byte>(known)), raw(ByteView(secret)));
  return known;
}

NodeIdentity::NodeIdentity(const Key& seed, std::vector<Key> exchanges, std::vector<std::string> owners)
    : seed_(seed),
      exchanges_(std::move(exchanges)),
      owners_(std::move(owners)),
      exchange_secret_(hkdf(seed, view("speed/1 identity exchange"))),
      exchange_(public_of(exchange_secret_)) {
  Key secret = hkdf(seed, view("speed/1 identity signing"));
  crypto_sign_seed_keypair(raw(std::span<std::byte>(signing_)), raw(std::span<std::byte>(signing_secret_)),
                           raw(ByteView(secret)));
  sodium_memzero(secret.data(), secret.size());
  for (const Key& one : exchanges_) renewed_.push_back(public_of(one));
}

NodeIdentity::~NodeIdentity() {
  sodium_memzero(seed_.data(), seed_.size());
  sodium_memzero(exchange_secret_.data(), exchange_secret_.size());
  sodium_memzero(signing_secret_.data(), signing_secret_.size());
  for (Key& one : exchanges_) sodium_memzero(one.data(), one.size());
}

Signature NodeIdentity::sign(ByteView data) const {
  Signature signature;
  crypto_sign_detached(raw(std::span<std::byte>(signature)), nullptr, raw(data), data.size(),
                       raw(ByteView(signing_secret_)));
  return signature;
}

Key NodeIdentity::agree(const PublicKey& other) const { return agreed(exchange_secret_, other); }

Key NodeIdentity::agree_renewed(const PublicKey& own, const PublicKey& other) const {
  const auto found = std::ranges::find(renewed_, own);
  if (found == renewed_.end()) refuse("it is for an exchange key that was given up");
  return agreed(exchanges_[static_cast<std::size_t>(found - renewed_.begin())], other);
}

Key NodeIdentity::resting_key(const Key& shared) const {
  Bytes input = joined({shared, exchange_secret_});
  const Key extracted = hmac(Key{}, input);
  sodium_memzero(input.data(), input.size());
  const std::byte one{1};
  return hmac(extracted, joined({view("speed/1 identity at rest"), ByteView(&one, 1)}));
}

// --- the file (I-2) ---

namespace {

[[noreturn]] void refuse_line(std::size_t number, const char* why) {
  throw KeyFileError("line " + std::to_string(number) + " of the identity file is " + why + fix);
}

Key parse_secret(std::string_view value, std::size_t number) {
  Key secret;
  std::size_t size = 0;
  const char* end = nullptr;
  const int failed = sodium_base642bin(raw(std::span<std::byte>(secret)), secret.size(), value.data(), value.size(),
                                       nullptr, &size, &end, sodium_base64_VARIANT_ORIGINAL);
  if (failed != 0 || size != secret.size() || to_base64(secret) != value) {
    refuse_line(number, "not the Base64 of 32 bytes");
  }
  return secret;
}

struct IdentityLines {
  std::vector<Key> seeds;
  std::vector<Key> exchanges;
  std::vector<std::string> owners;

  void take(std::string_view line, std::size_t number) {
    const std::size_t space = line.find(' ');
    const std::string_view word = line.substr(0, space);
    const std::string_view value = space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
    if (word == "seed") {
      seeds.push_back(parse_secret(value, number));
    } else if (word == "exchange") {
      exchanges.push_back(parse_secret(value, number));
    } else if (word == "owner" && is_fingerprint(value)) {
      owners.emplace_back(value);
    } else {
      refuse_line(number, "no seed, exchange or owner");
    }
  }
};

template <typename One>
void check_count(const std::vector<One>& found, std::size_t least, std::size_t most, const char* word) {
  const bool repeats = std::ranges::any_of(found, [&](const One& one) { return std::ranges::count(found, one) > 1; });
  if (found.size() < least || found.size() > most || repeats) {
    throw KeyFileError(std::string("the identity file has no ") + word + ", too many of them, or one twice" + fix);
  }
}

std::string_view without_end(std::string_view line) {
  const std::size_t last = line.find_last_not_of(" \t\r");
  return last == std::string_view::npos ? std::string_view() : line.substr(0, last + 1);
}

}  // namespace

NodeIdentity NodeIdentity::parse(std::string_view text) {
  IdentityLines found;
  for (std::size_t number = 1;; ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = without_end(text.substr(0, end));
    if (number == 1 && line != first_line) {
      throw KeyFileError("line 1 of the identity file is not " + std::string(first_line) + fix);
    }
    if (number > 1 && !line.empty()) found.take(line, number);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  check_count(found.seeds, 1, 1, "seed");
  check_count(found.exchanges, 1, limits::max_exchange_keys, "exchange");
  check_count(found.owners, 0, limits::max_owners, "owner");
  return {found.seeds.front(), std::move(found.exchanges), std::move(found.owners)};
}

std::string NodeIdentity::format() const {
  std::string text = std::string(first_line) + "\n\nseed " + to_base64(seed_) + "\n";
  for (const Key& one : exchanges_) text += "exchange " + to_base64(one) + "\n";
  for (const std::string& one : owners_) text += "owner " + one + "\n";
  return text;
}

// --- cards (I-3) ---

Bytes make_card(const NodeIdentity& identity, const NodeId& node) {
  Bytes card = joined({identity.signing(), identity.exchange(), identity.renewed().front()});
  append(card, identity.sign(joined({view("speed/1 card"), node, card})));
  return card;
}

Card read_card(ByteView data, const NodeId& node) {
  if (data.size() != card_keys_bytes + sizeof(Signature)) refuse("no card of a node");
  const Card card{block_at<32>(data, 0), block_at<32>(data, 32), block_at<32>(data, 64)};
  const ByteView keys = data.first(card_keys_bytes);
  if (!is_signed(card.signing, data.subspan(card_keys_bytes), joined({view("speed/1 card"), node, keys}))) {
    refuse("a card that was not made for this node");
  }
  return card;
}

// --- openings (I-4, I-5) ---

std::pair<Bytes, OpenedLink> open_link(const NodeIdentity& own, const Card& to, const Key& shared,
                                       const BoundLink& link, const Key& drawn) {
  Bytes opening(32);
  copy_to(opening.data(), view("SPDO\x01"));
  store(opening.data() + 8, link.generation);
  store(opening.data() + 12, link.target_life);
  copy_to(opening.data() + 16, key_id_of(shared));
  for (const PublicKey& key : {own.signing(), own.exchange(), public_of(drawn), to.exchange, to.renewed}) {
    append(opening, key);
  }
  const Key key = bound_key(shared, {own.agree(to.exchange), agreed(drawn, to.exchange), agreed(drawn, to.renewed)},
                            link, fingerprint_of(to.signing, to.exchange), opening);
  append(opening, own.sign(joined({view("speed/1 opening"), link.source, link.target, opening})));
  return std::pair(std::move(opening), OpenedLink{key, own.fingerprint()});
}

KeyId shared_key_of(ByteView opening) {
  if (opening.size() != opening_bytes || !same_bytes(opening.first(5), view("SPDO\x01"))) {
    refuse("no opening of a link");
  }
  return block_at<limits::key_id_bytes>(opening, 16);
}

std::pair<Key, LinkOpening> Bond::bind(const Key& shared, const BoundLink& link) const {
  Key drawn;
  randombytes_buf(drawn.data(), drawn.size());
  auto [opening, opened] = open_link(*own, to, shared, link, drawn);
  sodium_memzero(drawn.data(), drawn.size());
  return {opened.key, {opening_name({link.generation, key_id_of(opened.key)}), std::move(opening)}};
}

namespace {

void check_opening(const NodeIdentity& own, const Key& shared, const BoundLink& link, ByteView opening) {
  if (shared_key_of(opening) != key_id_of(shared)) refuse("an opening under another shared key");
  if (load<std::uint32_t>(opening.data() + 8) != link.generation ||
      load<std::uint32_t>(opening.data() + 12) != link.target_life || block_at<32>(opening, 128) != own.exchange()) {
    refuse("an opening of another link, or for another identity");
  }
  const Bytes covered = joined({view("speed/1 opening"), link.source, link.target, opening.first(opening_front_bytes)});
  if (!is_signed(block_at<32>(opening, 32), opening.subspan(opening_front_bytes), covered)) {
    refuse("an opening that its sender did not sign for this link");
  }
}

}  // namespace

OpenedLink accept_link(const NodeIdentity& own, const Key& shared, const BoundLink& link, ByteView opening) {
  check_opening(own, shared, link, opening);
  const PublicKey exchange = block_at<32>(opening, 64);
  const PublicKey drawn = block_at<32>(opening, 96);
  const Key key =
      bound_key(shared, {own.agree(exchange), own.agree(drawn), own.agree_renewed(block_at<32>(opening, 160), drawn)},
                link, own.fingerprint(), opening.first(opening_front_bytes));
  return {key, fingerprint_of(block_at<32>(opening, 32), exchange)};
}

// --- statements and verdicts (I-6, I-7) ---

Bytes make_statement(const NodeIdentity& owner, const Statement& statement) {
  Bytes made(64);
  copy_to(made.data(), view("SPDV\x01"));
  made[5] = static_cast<std::byte>(statement.kind);
  store(made.data() + 8, statement.issued);
  store(made.data() + 16, statement.until);
  copy_to(made.data() + 24, statement.node);
  copy_to(made.data() + 40, from_hex(statement.fingerprint).value());
  append(made, owner.signing());
  append(made, owner.exchange());
  append(made, owner.sign(joined({view("speed/1 statement"), made})));
  return made;
}

Statement read_statement(ByteView data, const NodeId& node, const std::vector<std::string>& owners) {
  if (data.size() != statement_front_bytes + sizeof(Signature) || !same_bytes(data.first(5), view("SPDV\x01"))) {
    refuse("no statement of an owner");
  }
  const PublicKey signing = block_at<32>(data, 64);
  const std::string owner = to_hex(fingerprint_of(signing, block_at<32>(data, 96)));
  const Bytes covered = joined({view("speed/1 statement"), data.first(statement_front_bytes)});
  if (std::ranges::find(owners, owner) == owners.end() ||
      !is_signed(signing, data.subspan(statement_front_bytes), covered)) {
    refuse("a statement that no known owner signed");
  }
  const auto kind = static_cast<Statement::Kind>(data[5]);
  if (block_at<16>(data, 24) != node || (kind != Statement::Kind::vouched && kind != Statement::Kind::revoked)) {
    refuse("a statement of another node, or of another kind");
  }
  return {kind, node, to_hex(data.subspan(40, limits::fingerprint_bytes)), load<std::uint64_t>(data.data() + 8),
          load<std::uint64_t>(data.data() + 16)};
}

std::string_view name_of(Verdict verdict) {
  constexpr std::array<std::string_view, 7> names{"accepted", "first",     "changed", "revoked",
                                                  "expired",  "unvouched", "missing"};
  return names.at(static_cast<std::size_t>(verdict));
}

// An old one may have been put back.
const Statement* current(const Evidence& evidence) {
  const std::uint64_t newest = evidence.known ? evidence.known->issued : 0;
  return evidence.statement && evidence.statement->issued >= newest ? &*evidence.statement : nullptr;
}

namespace {

bool is_revoked(std::string_view fingerprint, const Evidence& evidence) {
  const Statement* const stated = current(evidence);
  if (stated != nullptr) return stated->kind == Statement::Kind::revoked && stated->fingerprint == fingerprint;
  return evidence.known && evidence.known->is_revoked && evidence.known->fingerprint == fingerprint;
}

Verdict by_statement(std::string_view fingerprint, const Evidence& evidence) {
  const Statement* const stated = current(evidence);
  if (stated == nullptr || stated->kind == Statement::Kind::revoked) return Verdict::unvouched;
  if (stated->fingerprint != fingerprint) return Verdict::changed;
  return stated->until != 0 && evidence.now >= stated->until ? Verdict::expired : Verdict::accepted;
}

}  // namespace

Verdict judge(std::string_view fingerprint, const Evidence& evidence) {
  if (fingerprint.empty()) {
    return evidence.grants.empty() && !evidence.known && !evidence.statement ? Verdict::accepted : Verdict::missing;
  }
  if (is_revoked(fingerprint, evidence)) return Verdict::revoked;
  if (!evidence.grants.empty()) {
    return std::ranges::find(evidence.grants, fingerprint) == evidence.grants.end() ? Verdict::changed
                                                                                    : Verdict::accepted;
  }
  if (evidence.has_owners) return by_statement(fingerprint, evidence);
  if (!evidence.known) return Verdict::first;
  return evidence.known->fingerprint == fingerprint ? Verdict::accepted : Verdict::changed;
}

}  // namespace speed::wire
