#include "fs/inbox.hpp"

namespace speed::fs {

namespace {

constexpr std::size_t max_entries = 4 * wire::limits::max_lanes;
constexpr std::size_t max_junk_per_scan = 256;

}  // namespace

Inbox::Inbox(std::string root, std::string name, std::uint32_t generation, const wire::Keyring& keyring)
    : root_(std::move(root)),
      name_(std::move(name)),
      generation_(generation),
      keyring_(keyring),
      quarantine_(root_, name_) {}

void Inbox::prepare(const std::string& root, const std::string& name) {
  make_private_directory(wire::node_dir(root, name));
  make_private_directory(wire::inbox_dir(root, name));
  make_private_directory(wire::quarantine_dir(root, name));
}

std::vector<std::string> Inbox::scan() {
  const Fd directory = open_directory(wire::inbox_dir(root_, name_));
  std::set<std::string> senders;
  std::size_t junk = 0;
  for (const DirectoryEntry& entry : list_directory(directory.get(), max_entries)) {
    if (wire::is_node_name(entry.name) && entry.is_directory) {
      senders.insert(entry.name);
    } else if (!wire::is_temporary(entry.name) && junk < max_junk_per_scan) {
      ++junk;
      quarantine_.take(directory.get(), entry.name, "NO_LANE");
    }
  }
  junk_ += junk;
  std::erase_if(known_, [&](const std::string& name) { return !senders.contains(name); });
  over_limit_ = 0;
  for (const std::string& sender : senders) {
    if (known_.contains(sender)) continue;
    if (known_.size() < wire::limits::max_lanes) {
      known_.insert(sender);
    } else {
      ++over_limit_;
    }
  }
  return {known_.begin(), known_.end()};
}

void Inbox::put_aside(const std::string& sender, std::string_view reason) {
  const Fd directory = open_directory(wire::inbox_dir(root_, name_));
  quarantine_.take(directory.get(), sender, reason);
  known_.erase(sender);
}

std::unique_ptr<LaneReader> Inbox::lane(const std::string& sender) {
  return std::make_unique<LaneReader>(Surroundings{root_, name_, generation_, keyring_, quarantine_, buffer_}, sender);
}

}  // namespace speed::fs
