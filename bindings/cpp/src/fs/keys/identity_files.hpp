// The identity file of a node, and what it knows of others: statements of owners, and names that it met (I-2, I-6, I-7).
// Threads: all of it may be used from any thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wire/envelope/identity.hpp"
#include "wire/mutex.hpp"

namespace speed::fs {

// The identity in the file at `path`, which nobody else may read (I-2). KeyFileError.
wire::NodeIdentity read_identity(const std::string& path);

using IdentityPtr = std::shared_ptr<const wire::NodeIdentity>;

// The identity file of a running node: looked at again, and its exchange keys and owners taken, while the node goes on.
class IdentitySource {
 public:
  explicit IdentitySource(const std::string& path);  // KeyFileError if the file is not sound
  IdentitySource(const IdentitySource&) = delete;
  IdentitySource& operator=(const IdentitySource&) = delete;
  ~IdentitySource() = default;

  IdentityPtr now() const;
  std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  const std::string& path() const { return path_; }

  // Takes what is in the file now; what is wrong with it, if what was read before goes on, else nothing. Another seed is
  // another identity, which takes another life of the node.
  std::string look();

 private:
  const std::string path_;
  mutable Mutex lock_;
  IdentityPtr now_ SPEED_GUARDED_BY(lock_);
  std::atomic<std::uint64_t> changes_ = 0;
};

// What one of these owners states of a name; nothing where there is none, or none of them signed it.
std::optional<wire::Statement> statement_of(const std::string& root, const std::string& name,
                                            const std::vector<std::string>& owners);

inline constexpr std::size_t max_known_identities = 4096;  // a name beyond is not accepted at first use

// Names and their identities, in a file beside that of the own one: lines of `name fingerprint issued`, and `revoked`
// behind those that are.
class KnownIdentities {
 public:
  explicit KnownIdentities(const std::string& identity_file);  // KeyFileError for a file that was damaged

  std::optional<wire::KnownIdentity> of(const std::string& name) const;
  // On disk when this returns; false if too many are known already. KeyFileError.
  bool remember(const std::string& name, const wire::KnownIdentity& known);

 private:
  using Names = std::map<std::string, wire::KnownIdentity, std::less<>>;
  static Names read(const std::string& path);
  static std::string text_of(const Names& names);

  const std::string path_;
  mutable Mutex lock_;
  Names known_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::fs
