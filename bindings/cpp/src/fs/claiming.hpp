// Winning a name: the next generation of it, once nobody holds it any more.
// Threads: may be called from any.
#pragma once

#include <functional>

#include "fs/claim.hpp"
#include "fs/registry.hpp"

namespace speed::fs {

// A claim of this process, and the highest generation that was used before; 0 where there was none.
struct Won {
  Claimant claimant;
  std::uint32_t generation = 0;
  std::uint32_t former = 0;
};

// How the end of somebody else's hold is waited for.
struct Waiting {
  bool allowed = true;                                 // else what cannot be told at once counts as held
  std::function<void(const std::string&)> tell = {};   // takes what somebody should know meanwhile
  double sweep_seconds = wire::limits::sweep_seconds;  // until a sweeper is done
};

// Claims the next generation of `name`; NameTakenError. WireError if the floor is not authentic; std::system_error.
Won win(Registry& registry, const std::string& name, const Claimant& claimant, const Waiting& waiting = {});

// Keeps everybody from starting under a name, as long as it lives, to remove what is left of it.
class Hold {
 public:
  // NameTakenError if it is alive, starting, or nobody can tell at once; other errors of `win`.
  Hold(Registry& registry, const std::string& name);
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold();

  const Won& won() const { return won_; }

 private:
  Claims claims_;
  Won won_;
};

}  // namespace speed::fs
