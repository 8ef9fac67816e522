// The services that every interop agent offers.
#pragma once

#include <memory>
#include <mutex>

#include "speed/node.hpp"

namespace agent {

// Numbers in the order in which `sequence` calls started.
class Sequence {
 public:
  void add(std::int64_t number);
  speed::Array take();

 private:
  std::mutex lock_;
  speed::Array seen_;
};

void serve(speed::Node& node);

}  // namespace agent
