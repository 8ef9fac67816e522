// The lane analytics -> billing under a root of the test, with real files; every part can be opened again.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fabric.hpp"
#include "fs/lane/inbox.hpp"
#include "fs/lane/lane_writer.hpp"
#include "wire/envelope/seal.hpp"
#include "wire/names/names.hpp"

namespace speed::test {

// Calls of this process that fail while they are told to, with an error that no filesystem gives to order.
enum class Call { none, write, pwrite };
void fail(Call call, int error);  // Call::none: nothing fails any more

inline std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class OneLane {
 public:
  static constexpr std::size_t most = 1000;

  OneLane() { fs::Inbox::prepare(root.path, "billing"); }

  std::string place() const { return wire::lane_dir(root.path, "billing", "analytics"); }
  std::string file(std::uint32_t number, std::uint32_t generation = 1) const {
    return wire::child_path(place(), wire::lane_file_name({generation, number}));
  }
  bool has(std::uint32_t number) const { return std::filesystem::exists(file(number)); }

  std::unique_ptr<fs::LaneReader> reader(std::uint32_t generation = 1) {
    inboxes_.push_back(std::make_unique<fs::Inbox>(root.path, "billing", generation, ring));
    inboxes_.back()->is_live = [this](const auto&, auto) { return sender_lives; };
    return inboxes_.back()->lane("analytics");
  }

  wire::LaneKeys lane_keys() const { return ring.lane_keys(wire::node_id("analytics"), wire::node_id("billing")); }

  std::size_t quarantined() const {
    std::size_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(wire::quarantine_dir(root.path, "billing"))) {
      found += entry.path().extension() == ".reason" ? 1 : 0;
    }
    return found;
  }

  // The bytes of the first damage that was put aside.
  std::string first_kept() const {
    std::set<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(wire::quarantine_dir(root.path, "billing"))) {
      if (entry.path().extension() != ".reason") paths.insert(entry.path());
    }
    return paths.empty() ? std::string() : content(*paths.begin());
  }

  TestRoot root;
  wire::Keyring ring{{wire::Key{}}};
  bool sender_lives = true;

 private:
  std::vector<std::unique_ptr<fs::Inbox>> inboxes_;
};

// A sender of that lane in one generation.
class Sender {
 public:
  explicit Sender(const OneLane& lane, std::uint32_t generation = 1, const fs::LaneSettings& settings = {})
      : writer(lane.root.path, "analytics", "billing", generation, lane.lane_keys(), settings),
        generation_(generation),
        sealer_(lane.ring, wire::node_id("analytics"), wire::node_id("billing"), generation) {}

  void send(const std::string& text, wire::EnvelopeType type = wire::EnvelopeType::message, std::uint16_t flags = 0) {
    const Bytes envelope = sealed(text, type, flags);
    writer.append(envelope, {envelope.size()});
    ++counter;
  }

  Bytes sealed(const std::string& text, wire::EnvelopeType type = wire::EnvelopeType::message,
               std::uint16_t flags = 0) {
    wire::Buffer envelope;
    wire::Nonce nonce{};
    nonce[0] = static_cast<std::byte>(counter);
    sealer_.seal(type, flags, counter, 1, wire::view(text), nonce, envelope);
    return {envelope.view().begin(), envelope.view().end()};
  }

  // What a link does with a large payload, up to where its pieces would be written; 0: no slot is free.
  std::uint32_t announce(const std::string& payload) {
    wire::SlotHead head{0, payload.size(), {}};
    head.key[0] = static_cast<std::byte>(counter);
    pieces = std::make_unique<wire::SlotPieces>(head, wire::Aead::Direction::seal);
    head.number = writer.take_slot(*pieces);
    if (head.number == 0) return 0;
    const wire::SlotHeadBytes told = wire::encode_slot_head(head);
    send(std::string(wire::text(told)), wire::EnvelopeType::message, wire::flag_slotted);
    return head.number;
  }

  void write(std::uint32_t slot, const std::string& payload) {
    writer.write_slot(slot, wire::make_sequence(generation_, counter - 1), *pieces, wire::view(payload));
  }

  std::uint32_t send_in_slot(const std::string& payload) {
    const std::uint32_t slot = announce(payload);
    if (slot != 0) write(slot, payload);
    return slot;
  }

  fs::LaneWriter writer;
  std::unique_ptr<wire::SlotPieces> pieces;  // of the payload that was announced last
  std::uint64_t counter = 1;  // of the next envelope

 private:
  std::uint32_t generation_;
  wire::LinkSealer sealer_;
};

struct Got {
  std::string text;
  std::uint64_t sequence = 0;
  bool redelivered = false;
  bool doubtful = false;
};

// Everything that lies there now; each read is later than the one before.
inline std::vector<Got> read_all(fs::LaneReader& reader, bool scan = true) {
  static TimePoint now(1000s);
  std::vector<Got> all;
  std::vector<fs::Received> received;
  for (bool more = true; more;) {
    more = reader.read(received, OneLane::most, now += 1s, scan);
    for (const fs::Received& one : received) {
      all.push_back({std::string(wire::text(one.payload)), one.header.sequence, one.redelivered, one.doubtful});
    }
  }
  return all;
}

inline std::vector<std::string> texts(const std::vector<Got>& all) {
  std::vector<std::string> found;
  for (const Got& one : all) found.push_back(one.text);
  return found;
}

inline std::uint64_t counted(const fs::LaneReader& reader, const std::string& what) {
  const auto found = reader.counts().find(what);
  return found == reader.counts().end() ? 0 : found->second;
}

inline void put(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

}  // namespace speed::test
