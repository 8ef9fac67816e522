#include "fs/inbox.hpp"

namespace speed::fs {

namespace {

constexpr std::size_t max_entries = 2 * wire::limits::max_lanes;
constexpr std::size_t max_junk_per_scan = 256;

}  // namespace

Inbox::Inbox(std::string root, std::string name, std::uint32_t generation, const wire::Keyring& keyring)
    : root_(std::move(root)),
      name_(std::move(name)),
      generation_(generation),
      keyring_(keyring),
      quarantine_(root_, name_) {}

void Inbox::prepare(const std::string& root, const std::string& name) {
  ensure_directory(wire::node_dir(root, name));
  ensure_directory(wire::inbox_dir(root, name));
  ensure_directory(wire::quarantine_dir(root, name));
}

std::optional<std::vector<std::string>> Inbox::scan() {
  const Fd directory = open_directory(wire::inbox_dir(root_, name_));
  const std::int64_t changed_at = modified_ns(status_of(directory.get()));
  if (changed_at == listed_at_) return std::nullopt;
  std::vector<std::string> senders = sort_out(directory.get());
  listed_at_ = is_settled(changed_at) ? changed_at : -1;
  return senders;
}

// What is put aside changes the directory: it is listed again for what is left of that.
std::vector<std::string> Inbox::sort_out(int directory) {
  std::vector<std::string> senders;
  std::size_t junk = 0;
  for (DirectoryEntry& entry : list_directory(directory, max_entries)) {
    if (wire::is_node_name(entry.name) && entry.is_directory) {
      if (senders.size() < wire::limits::max_lanes) senders.push_back(std::move(entry.name));
    } else if (!wire::is_temporary(entry.name) && junk < max_junk_per_scan) {
      ++junk;
      quarantine_.take(directory, entry.name, "NO_LANE");
    }
  }
  junk_ += junk;
  return senders;
}

std::int64_t Inbox::changed_at(const std::string& sender) const {
  struct stat status {};
  if (lstat(wire::lane_dir(root_, name_, sender).c_str(), &status) != 0) return -1;
  const std::int64_t modified = modified_ns(status);
  return is_settled(modified) ? modified : -1;
}

std::unique_ptr<LaneReader> Inbox::lane(const std::string& sender) {
  return std::make_unique<LaneReader>(Surroundings{root_, name_, generation_, keyring_, quarantine_, buffer_}, sender);
}

}  // namespace speed::fs
