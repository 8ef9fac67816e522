// The inbox of a node: one lane directory per sender, everything else put aside (L-1, L-20, L-21).
// Threads: used by the thread that holds the protocol role.
#pragma once

#include <atomic>
#include <memory>
#include <set>

#include "fs/lane_reader.hpp"

namespace speed::fs {

class Inbox {
 public:
  Inbox(std::string root, std::string name, std::uint32_t generation, const wire::Keyring& keyring);

  // Makes the node's directories; RootError if something else is in their place.
  static void prepare(const std::string& root, const std::string& name);

  // Names of the senders with a lane here, at most max_lanes; lanes known from earlier scans come first, so that
  // newcomers oust nobody. Foreign things go to quarantine, a few a scan.
  std::vector<std::string> scan();

  void put_aside(const std::string& sender, std::string_view reason);  // a whole lane (L-21)

  // Opens the lane of `sender`; std::system_error if it is gone, LeaseLostError if this node was replaced.
  std::unique_ptr<LaneReader> lane(const std::string& sender);

  void close() noexcept { quarantine_.close(); }  // nothing is put aside any more

  std::uint64_t junk() const { return junk_; }              // foreign things put aside
  std::size_t over_limit() const { return over_limit_; }    // lanes not looked at in the last scan

 private:
  std::string root_;
  std::string name_;
  std::uint32_t generation_;
  const wire::Keyring& keyring_;
  Quarantine quarantine_;
  wire::Buffer buffer_;
  std::set<std::string> known_;
  std::atomic<std::uint64_t> junk_ = 0;
  std::size_t over_limit_ = 0;
};

}  // namespace speed::fs
