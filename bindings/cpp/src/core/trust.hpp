// Whether only root and this user can change a directory, or a group that was asked for as well.
#pragma once

#include <sys/types.h>

#include <vector>

#include "wire/value/bytes.hpp"

namespace speed::core {

enum class Trust {
  trusted,
  group,     // a root of several users: the members of its group can do all that its owner can
  owner,     // from here on: not to be used
  writable,
  listed,    // an access list lets others write
  stranger,  // a root of a group of which this process is no member
};

// What is on the way: `mode` as in st_mode, `lists` the access lists that a root has.
struct Step {
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0;
  std::vector<Bytes> lists;
};

// Effective user and all groups of a process.
struct User {
  uid_t user = 0;
  std::vector<gid_t> groups;

  bool trusts(uid_t other) const { return other == 0 || other == user; }
  bool is_in(gid_t group) const;
};

// Whether a directory is one of a group root: what is made in it is the group's as well.
bool is_shared(mode_t mode);

// Of a directory, link or file on the way. In a sticky directory others cannot change what is not theirs.
Trust judge_step(const Step& step, const User& who);

// Of a root, or of a directory inside a group root: there each member may have made it.
Trust judge_root(const Step& step, const User& who, bool inside = false);

}  // namespace speed::core
