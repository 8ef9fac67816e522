// Payloads that go out in segments because no envelope holds them: streamed, acknowledged once (G-18 to G-20).
// Threads: all methods may be called from any thread.
#pragma once

#include "engine/call/calls.hpp"
#include "speed/large.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class LargeSender {
 public:
  LargeSender(Context& context, Links& links, Calls& calls, Workers& workers)
      : context_(context), links_(links), calls_(calls), workers_(workers) {}

  // Each segment waits for room as long as `timeout`. PayloadTooLargeError, and as OutgoingLink::send.
  void send(const std::string& target, wire::EnvelopeType type, const segment::Source& payload, Duration timeout,
            const Progress& progress = {}, bool unordered = false) const;
  // Then waits for the acknowledgement, as long as `timeout` from the last segment on, and tells whether the
  // message waits there for the program to take it. SegmentsLostError if the receiver gave it up.
  bool send_acknowledged(const std::string& target, wire::EnvelopeType type, const segment::Source& payload,
                         Duration timeout, const Progress& progress = {}, bool unordered = false) const;

 private:
  LinkPtr link_to(const std::string& target, std::size_t payload_bytes, Duration timeout) const;

  Context& context_;
  Links& links_;
  Calls& calls_;
  Workers& workers_;
};

// What cuts all that goes out on a link. ConfigurationError for a size that no envelope holds.
segment::Splitter link_splitter(std::size_t segment_size, double parity_rate);

}  // namespace speed::engine
