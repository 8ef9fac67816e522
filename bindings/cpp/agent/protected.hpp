// A second node of the agent, which signs and encrypts (tests/interop/test_protected.py).
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "json_value.hpp"
#include "speed/node.hpp"

namespace agent {

class ProtectedNode {
 public:
  // Opens it with the settings of a `protect` command, of which `options` says root and key.
  ProtectedNode(const Json& command, speed::NodeOptions options);
  ~ProtectedNode() { node_->close(); }  // before what the handler uses goes

  Json send(const Json& command);
  Json receive(const Json& command);
  std::uint32_t generation() const { return node_->generation(); }

 private:
  std::mutex lock_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Json> handled_;
  std::unique_ptr<speed::Node> node_;
};

}  // namespace agent
