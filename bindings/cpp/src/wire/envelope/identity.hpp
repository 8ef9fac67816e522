// Identities of nodes: their file, cards, openings of bound links, statements of an owner, verdicts (I-1 to I-7).
// Nothing here shows a secret. Threads: all of it may be used from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wire/envelope/keyring.hpp"

namespace speed::wire {

using PublicKey = Block<32>;
using Signature = Block<64>;
using Fingerprint = Block<limits::fingerprint_bytes>;

Fingerprint fingerprint_of(const PublicKey& signing, const PublicKey& exchange);
PublicKey public_of(const Key& secret);  // the public half of an X25519 secret

// The secrets of one node, which it shares with nobody.
class NodeIdentity {
 public:
  NodeIdentity(const Key& seed, std::vector<Key> exchanges, std::vector<std::string> owners = {});
  NodeIdentity(const NodeIdentity&) = default;
  NodeIdentity& operator=(const NodeIdentity&) = default;
  ~NodeIdentity();

  static NodeIdentity parse(std::string_view text);  // KeyFileError names the line, never its content
  std::string format() const;                    // what `parse` reads back

  const PublicKey& signing() const { return signing_; }
  const PublicKey& exchange() const { return exchange_; }
  const std::vector<PublicKey>& renewed() const { return renewed_; }  // that of now first
  const std::vector<std::string>& owners() const { return owners_; }
  Fingerprint fingerprint() const { return fingerprint_of(signing_, exchange_); }

  Signature sign(ByteView data) const;
  // What this identity and the holder of `other` share. WireError BAD_IDENTITY for a weak key.
  Key agree(const PublicKey& other) const;
  Key agree_renewed(const PublicKey& own, const PublicKey& other) const;  // BAD_IDENTITY where `own` was given up
  Key resting_key(const Key& shared) const;  // in the place of a shared key, for files of this node alone (I-9)

 private:
  Key seed_;
  std::vector<Key> exchanges_;
  std::vector<std::string> owners_;
  Key exchange_secret_;
  Block<64> signing_secret_{};
  PublicKey signing_{};
  PublicKey exchange_;
  std::vector<PublicKey> renewed_;
};

// The public keys of a node, in its entry (I-3).
struct Card {
  PublicKey signing;
  PublicKey exchange;
  PublicKey renewed;
};

Bytes make_card(const NodeIdentity& identity, const NodeId& node);
Card read_card(ByteView data, const NodeId& node);  // WireError BAD_IDENTITY

// Which link an opening is for; `target_life` is 0 unless the receiver is ephemeral.
struct BoundLink {
  NodeId source{};
  NodeId target{};
  std::uint32_t generation = 0;
  std::uint32_t target_life = 0;
};

// The key of a bound link, and whose it is.
struct OpenedLink {
  Key key;
  Fingerprint fingerprint;
};

// The opening to leave in the lane, and the key (I-4). `drawn` is a secret that is forgotten then. WireError BAD_IDENTITY.
std::pair<Bytes, OpenedLink> open_link(const NodeIdentity& own, const Card& to, const Key& shared,
                                       const BoundLink& link, const Key& drawn);
// The key of a link that another node opened to this one (I-5). WireError BAD_IDENTITY.
OpenedLink accept_link(const NodeIdentity& own, const Key& shared, const BoundLink& link, ByteView opening);

inline constexpr std::size_t opening_bytes = 192 + sizeof(Signature);
KeyId shared_key_of(ByteView opening);  // which one it was made under; WireError BAD_IDENTITY for what is no opening

// The file that the receiver needs before the first envelope under its key.
struct LinkOpening {
  std::string filename;
  Bytes data;
};

// This node and another one, as a link between them takes them.
struct Bond {
  std::shared_ptr<const NodeIdentity> own;
  Card to;
  std::string fingerprint;  // of `to`

  // The key in the place of the link key, and what opens it for the receiver. WireError BAD_IDENTITY.
  std::pair<Key, LinkOpening> bind(const Key& shared, const BoundLink& link) const;
};

using BondPtr = std::shared_ptr<const Bond>;

// What an owner says of a node (I-6); times in Unix seconds, `until` 0 for no end.
struct Statement {
  enum class Kind : std::uint8_t { vouched = 1, revoked = 2 };

  Kind kind = Kind::vouched;
  NodeId node{};
  std::string fingerprint;
  std::uint64_t issued = 0;
  std::uint64_t until = 0;
};

inline constexpr std::size_t statement_bytes = 128 + sizeof(Signature);
Bytes make_statement(const NodeIdentity& owner, const Statement& statement);
Statement read_statement(ByteView data, const NodeId& node, const std::vector<std::string>& owners);  // BAD_IDENTITY

// What a node remembers of a name.
struct KnownIdentity {
  std::string fingerprint;
  std::uint64_t issued = 0;  // of the newest statement
  bool is_revoked = false;

  bool operator==(const KnownIdentity&) const = default;
};

// What a name is judged by (I-7).
struct Evidence {
  std::vector<std::string> grants;  // fingerprints
  std::optional<KnownIdentity> known;
  std::optional<Statement> statement;
  bool has_owners = false;
  std::uint64_t now = 0;  // Unix seconds
};

const Statement* current(const Evidence& evidence);  // null for none, or where a newer one was seen before

enum class Verdict : std::uint8_t { accepted, first, changed, revoked, expired, unvouched, missing };

std::string_view name_of(Verdict verdict);
Verdict judge(std::string_view fingerprint, const Evidence& evidence);  // empty: the name came without an identity

}  // namespace speed::wire
