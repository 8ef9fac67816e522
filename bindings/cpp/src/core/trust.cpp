#include "core/trust.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>

namespace speed::core {

namespace {

constexpr mode_t group_bits = S_ISGID | S_IWGRP;
constexpr std::uint32_t list_version = 2;
constexpr std::uint32_t named_user = 0x02;
constexpr std::uint32_t named_group = 0x08;
constexpr std::uint32_t may_write = 0x02;

std::uint32_t little_endian(ByteView bytes) {
  std::uint32_t number = 0;
  for (std::size_t at = bytes.size(); at-- > 0;) number = number << 8 | static_cast<std::uint32_t>(bytes[at]);
  return number;
}

// One entry of a list: tag 2, rights 2, number 4.
bool lets_others_write(ByteView entry, const User& who) {
  const std::uint32_t tag = little_endian(entry.first(2));
  const bool is_foreign = tag == named_group || (tag == named_user && !who.trusts(little_endian(entry.subspan(4, 4))));
  return is_foreign && (little_endian(entry.subspan(2, 2)) & may_write) != 0;
}

// By a POSIX access list, as the kernel shows it; also if it is none.
bool names_writer(ByteView list, const User& who) {
  if (list.size() < 4 || list.size() % 8 != 4 || little_endian(list.first(4)) != list_version) return true;
  for (ByteView rest = list.subspan(4); !rest.empty(); rest = rest.subspan(8)) {
    if (lets_others_write(rest.first(8), who)) return true;
  }
  return false;
}

}  // namespace

bool User::is_in(gid_t group) const { return std::ranges::find(groups, group) != groups.end(); }

bool is_shared(mode_t mode) { return (mode & group_bits) == group_bits; }

Trust judge_step(const Step& step, const User& who) {
  if (!who.trusts(step.owner)) return Trust::owner;
  const bool is_open = (step.mode & (S_IWGRP | S_IWOTH)) != 0 && (step.mode & S_ISVTX) == 0;
  return S_ISDIR(step.mode) && is_open ? Trust::writable : Trust::trusted;
}

Trust judge_root(const Step& step, const User& who, bool inside) {
  if (!inside && !who.trusts(step.owner)) return Trust::owner;
  const bool shared = is_shared(step.mode);
  if ((step.mode & S_IWOTH) != 0 || ((step.mode & S_IWGRP) != 0 && !shared)) return Trust::writable;
  if (shared && who.user != 0 && !who.is_in(step.group)) return Trust::stranger;
  if (std::ranges::any_of(step.lists, [&](const Bytes& list) { return names_writer(list, who); })) return Trust::listed;
  return shared ? Trust::group : Trust::trusted;
}

}  // namespace speed::core
