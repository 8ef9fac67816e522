// Whom a program names: a node of this root, one of a family (S-40), or one of another host, which is asked through the
// gateway of this root (H-2, H-3).
// Threads: all methods may be called from any thread; the node outlives it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/runtime.hpp"

namespace speed::engine {

class Peer {
 public:
  Peer(Runtime& node, std::string name) : node_(node), name_(std::move(name)) {}
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  virtual ~Peer() = default;

  const std::string& name() const { return name_; }

  // The result of a call; throws what ended it.
  virtual Value call(const std::string& service, const Map& arguments, const CallOptions& options) const = 0;
  // Begins one; `completion` runs once unless this throws, and `outcome` says what what it got means.
  virtual void start(const std::string& service, const Map& arguments, const CallOptions& options,
                     core::Completion completion) const = 0;
  virtual core::Outcome outcome(core::Outcome answer) const = 0;
  // Begins a call with a stream. ConfigurationError: there are none to that node.
  virtual std::shared_ptr<StreamChannel> open_stream(const std::string& service, const Map& arguments,
                                                     const CallOptions& options, const StreamOffer& offer) const = 0;

  virtual std::string send(const Value& payload, const SendOptions& options) const = 0;  // its id
  virtual void send_encoded(ByteView message, const SendOptions& options) const = 0;
  virtual void send_all(const std::vector<Value>& payloads, const SendOptions& options) const = 0;
  virtual std::string send_large(const segment::Source& payload, const SendOptions& options,
                                 const Progress& progress) const = 0;
  virtual void segment(std::optional<std::size_t> segment_size, double parity_rate) const = 0;

  virtual void ping(Seconds timeout) const = 0;
  virtual Map discover(const char* operation, Seconds timeout) const = 0;  // SERVICES, DESCRIBE, INFO or STATS
  virtual void check_alike(Seconds /*timeout*/) const {}  // ConfigurationError: nodes of a family differ

 protected:
  Runtime& node_;
  const std::string name_;
};

using PeerPtr = std::shared_ptr<const Peer>;

// ConfigurationError for a key where `name` is no family.
PeerPtr peer_of(Runtime& node, const std::string& name, const std::optional<std::string>& key = std::nullopt);
PeerPtr family_peer(Runtime& node, const std::string& name, const std::optional<std::string>& key);
PeerPtr gateway_peer(Runtime& node, const std::string& name);  // of a node of another host

}  // namespace speed::engine
