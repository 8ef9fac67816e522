// The inbox of a node: one lane directory per sender, everything else put aside (L-1, L-20, L-21).
// Threads: used by the thread that holds the protocol role.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "fs/lane/lane_reader.hpp"
#include "fs/registry/registry.hpp"
#include "wire/time.hpp"

namespace speed::fs {

class Inbox {
 public:
  Inbox(std::string root, std::string name, std::uint32_t generation, const wire::Keyring& keyring,
        bool ephemeral = false, std::size_t max_lanes = wire::limits::max_lanes, wire::Buffers buffers = {});

  // Whether a node has a live entry of a generation, as its lanes ask.
  std::function<bool(const std::string& name, std::uint32_t generation)> is_live = [](const auto&, auto) {
    return false;
  };

  const IdentitySource* identity = nullptr;  // of the node, by which links to it may be bound

  bool is_remote = false;  // the filesystem is another host's
  Duration late = {};  // how old a listing may be that the filesystem gives

  // Makes the node's directories; RootError if something else is in their place.
  static void prepare(const std::string& root, const std::string& name);

  using Names = std::vector<std::string>;
  using Choice = std::function<bool(const std::string& sender)>;

  // Names of the senders with a lane here, at most max_lanes; null if none came or went since the last scan. If there are
  // more, these are the ones that are `first`, and then those whose lane changed last: such a listing is made again each
  // time. Foreign things go to quarantine, a few a scan.
  std::optional<Names> scan(const Choice& first = [](const std::string&) { return false; });

  // When files last came to a lane or went, in ns; -1 if that is so recent that the next change may not show.
  std::int64_t changed_at(const std::string& sender) const;

  // Removes the lane of a sender that will not come back, unless files came to it or went since `changed_at`. Its reader
  // read it to the end after the sender was gone; nobody starts under the sender's name meanwhile (L-27).
  bool remove_lane(const std::string& sender, std::int64_t changed_at, Registry& registry) const;

  // Opens the lane of `sender`; std::system_error if it is gone, LeaseLostError if this node was replaced.
  std::unique_ptr<LaneReader> lane(const std::string& sender);

  void close() noexcept { quarantine_.close(); }  // nothing is put aside any more

  std::uint64_t junk() const { return junk_; }  // foreign things put aside

 private:
  bool shows(std::int64_t changed_at);
  Names sort_out(int directory);
  void cut(Names& senders, const Choice& first, int directory) const;

  std::string root_;
  std::string name_;
  std::uint32_t generation_;
  const wire::Keyring& keyring_;
  bool ephemeral_;
  std::size_t max_lanes_;
  Quarantine quarantine_;
  wire::Buffer buffer_;
  wire::Buffers buffers_;
  std::int64_t change_ = -1;  // the change that was seen last, in ns
  TimePoint seen_ = {};  // since when
  std::int64_t listed_at_ = -1;  // when the directory that was listed last was changed, in ns
  std::atomic<std::uint64_t> junk_ = 0;
};

}  // namespace speed::fs
