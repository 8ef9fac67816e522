// The bound links that lead into a lane, by the openings in it (I-5).
// Threads: not thread-safe; the lane's lock guards it.
#pragma once

#include <deque>
#include <string>
#include <utility>

#include "fs/keys/identity_files.hpp"
#include "fs/lane/lane_files.hpp"
#include "wire/envelope/seal.hpp"

namespace speed::fs {

class Openings : public wire::BoundKeys {
 public:
  // `link`: its nodes and the receiver's life, of no generation. All of these outlive it.
  Openings(const IdentitySource& own, const wire::Keyring& keyring, const LaneFiles& files,
           const wire::BoundLink& link);

  std::uint64_t changes() const override { return own_.changes(); }
  wire::Key key(const wire::KeyId& id, std::uint32_t generation) override;

  // Of the sender of what was opened under a key; empty if it is that of no bound link.
  std::string fingerprint(const wire::KeyId& id);

 private:
  Bytes read(const wire::OpeningName& name) const;
  void remember(const wire::KeyId& id, std::string fingerprint);

  // Those of links that are opened again count anew.
  static constexpr std::size_t most = 64;

  const IdentitySource& own_;
  const wire::Keyring& keyring_;
  const LaneFiles& files_;
  wire::BoundLink link_;
  std::deque<std::pair<wire::KeyId, std::string>> fingerprints_;  // what was used last is last
};

}  // namespace speed::fs
