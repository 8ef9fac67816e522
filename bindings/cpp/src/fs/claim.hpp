// Claims: files created with O_EXCL, so that exactly one process wins a generation of a name.
#pragma once

#include <optional>
#include <string>

#include "fs/identity.hpp"

namespace speed::fs {

// Who made a claim, as far as its file tells.
struct Claimant {
  Identity identity;
  std::int64_t lease_ms = 0;
  std::optional<std::int64_t> made_ms;  // CLOCK_MONOTONIC of its boot

  // Whether a claim of this boot has stood a whole lease.
  bool is_expired(std::int64_t now_ms) const { return made_ms && now_ms - *made_ms > lease_ms; }
};

// The claims of one name under one root.
class Claims {
 public:
  Claims(std::string root, std::string name) : root_(std::move(root)), name_(std::move(name)) {}

  std::uint32_t newest() const;                                           // 0 without one
  bool take(std::uint32_t generation, const Claimant& claimant) const;    // false if somebody else has it
  std::optional<Claimant> read(std::uint32_t generation) const;           // null while it is empty or unreadable
  void release(std::uint32_t generation) const noexcept;                  // read-only: no entry follows any more
  bool is_released(std::uint32_t generation) const;
  void remove_older(std::uint32_t generation) const;                      // as far as they can be

 private:
  std::string root_;
  std::string name_;
};

}  // namespace speed::fs
