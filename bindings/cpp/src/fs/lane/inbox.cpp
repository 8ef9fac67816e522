#include "fs/lane/inbox.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "fs/clock.hpp"
#include "fs/registry/claim.hpp"

namespace speed::fs {

namespace {

constexpr std::size_t max_entries = 2 * wire::limits::max_lanes;
constexpr std::size_t max_junk_per_scan = 256;

// The cursor goes last: without it what else lies there would be taken again.
void remove_files(int lane) {
  std::vector<DirectoryEntry> files = list_directory(lane, SIZE_MAX);
  std::partition(files.begin(), files.end(), [](const DirectoryEntry& file) { return !wire::parse_cursor(file.name); });
  for (const DirectoryEntry& file : files) {
    if (unlinkat(lane, file.name.c_str(), 0) != 0) throw_errno(file.name);
  }
}

// When a lane changed last; the oldest for one that is just being removed.
std::int64_t changed_in(int directory, const std::string& sender) {
  struct stat status{};
  return fstatat(directory, sender.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 ? modified_ns(status) : -1;
}

}  // namespace

Inbox::Inbox(std::string root, std::string name, std::uint32_t generation, const wire::Keyring& keyring, bool ephemeral,
             std::size_t max_lanes, wire::Buffers buffers)
    : root_(std::move(root)),
      name_(std::move(name)),
      generation_(generation),
      keyring_(keyring),
      ephemeral_(ephemeral),
      max_lanes_(max_lanes),
      quarantine_(root_, name_),
      buffers_(std::move(buffers)) {}

void Inbox::prepare(const std::string& root, const std::string& name) {
  ensure_directory(wire::node_dir(root, name));
  ensure_directory(wire::inbox_dir(root, name));
  ensure_directory(wire::quarantine_dir(root, name));
}

std::optional<Inbox::Names> Inbox::scan(const Choice& first) {
  const Fd directory = open_directory(wire::inbox_dir(root_, name_));
  const std::int64_t changed_at = modified_ns(status_of(directory.get()));
  if (changed_at == listed_at_) return std::nullopt;
  Names senders = sort_out(directory.get());
  listed_at_ = shows(changed_at) && senders.size() <= max_lanes_ ? changed_at : -1;
  if (senders.size() > max_lanes_) cut(senders, first, directory.get());
  return senders;
}

// What is put aside changes the directory: it is listed again for what is left of that.
Inbox::Names Inbox::sort_out(int directory) {
  Names senders;
  std::size_t junk = 0;
  for (DirectoryEntry& entry : list_directory(directory, max_entries)) {
    if (wire::is_node_name(entry.name) && entry.is_directory) {
      senders.push_back(std::move(entry.name));
    } else if (!wire::is_temporary(entry.name) && junk < max_junk_per_scan) {
      ++junk;
      quarantine_.take(directory, entry.name, "NO_LANE");
    }
  }
  junk_ += junk;
  return senders;
}

void Inbox::cut(Names& senders, const Choice& first, int directory) const {
  using Rank = std::pair<bool, std::int64_t>;
  std::vector<std::pair<Rank, std::string>> ranked;
  for (std::string& sender : senders) {
    const Rank rank(first(sender), changed_in(directory, sender));
    ranked.emplace_back(rank, std::move(sender));
  }
  std::ranges::nth_element(ranked, ranked.begin() + static_cast<std::ptrdiff_t>(max_lanes_), std::ranges::greater());
  senders.resize(max_lanes_);
  for (std::size_t at = 0; at < max_lanes_; ++at) senders[at] = std::move(ranked[at].second);
}

// Whether a listing that was just made shows what changed then; a network filesystem may give an older one.
bool Inbox::shows(std::int64_t changed_at) {
  const TimePoint now = monotonic_now();
  if (std::exchange(change_, changed_at) != changed_at) seen_ = now;
  return is_settled(changed_at) && now - seen_ >= late;
}

std::int64_t Inbox::changed_at(const std::string& sender) const {
  struct stat status{};
  if (lstat(wire::lane_dir(root_, name_, sender).c_str(), &status) != 0) return -1;
  const std::int64_t modified = modified_ns(status);
  return is_settled(modified) ? modified : -1;
}

bool Inbox::remove_lane(const std::string& sender, std::int64_t changed_at, Registry& registry) const {
  try {
    const Hold held(registry, sender);
    if (!held.won().claimant.ephemeral || changed_at < 0 || this->changed_at(sender) != changed_at) return false;
    const std::string path = wire::lane_dir(root_, name_, sender);
    remove_files(open_directory(path).get());
    if (rmdir(path.c_str()) != 0) throw_errno(path);
    return true;
  } catch (const std::exception&) {
    return false;  // it is tried again in its next turn
  }
}

std::unique_ptr<LaneReader> Inbox::lane(const std::string& sender) {
  return std::make_unique<LaneReader>(Surroundings{root_, name_, generation_, keyring_, quarantine_, ephemeral_,
                                                   is_remote, buffer_, buffers_, is_live, identity},
                                      sender);
}

}  // namespace speed::fs
