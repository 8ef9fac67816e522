#include "engine/link/large_sender.hpp"

#include <algorithm>

#include "core/counters.hpp"
#include "fs/clock.hpp"
#include "segment/form.hpp"
#include "speed/error.hpp"

namespace speed::engine {

namespace {

struct AnsweredAlready {};

segment::Splitter splitter_for(const OutgoingLink& link, std::size_t payload_bytes) {
  if (payload_bytes > wire::limits::max_segmented_bytes) {
    throw PayloadTooLargeError(std::to_string(payload_bytes) + " bytes for '" + link.target() + "'; the limit is " +
                               std::to_string(wire::limits::max_segmented_bytes) + ": send it in parts");
  }
  if (const auto splitter = link.splitter()) return *splitter;
  return fitting_splitter(payload_bytes);
}

void report(const Progress& progress, const segment::Segment& one, std::size_t& written, std::size_t total) {
  if (one.is_parity) return;
  written += one.payload.size();
  if (progress) progress(written, total);
}

}  // namespace

void LargeSender::send(const std::string& target, wire::EnvelopeType type, const segment::Source& payload,
                       Duration timeout, const Progress& progress, bool unordered) const {
  const LinkPtr link = link_to(target, payload.size(), timeout);
  std::size_t written = 0;
  splitter_for(*link, payload.size()).split(payload, [&](const segment::Segment& one) {
    link->send_segment(one, {type, 0, {}, fs::monotonic_now() + timeout, false, {}, unordered});
    report(progress, one, written, payload.size());
  });
}

bool LargeSender::send_acknowledged(const std::string& target, wire::EnvelopeType type, const segment::Source& payload,
                                    Duration timeout, const Progress& progress, bool unordered) const {
  const LinkPtr link = link_to(target, payload.size(), timeout);
  Waiter waiter;
  const core::Completion answered = answered_once(waiter.completion());
  std::vector<std::uint64_t> tracked;
  const auto track = [&](std::uint64_t sequence) {
    tracked.push_back(sequence);
    calls_.track_ack(target, sequence, fs::monotonic_now() + wire::limits::reconstruction, answered);
  };
  const auto forget = [&] {
    for (const std::uint64_t sequence : tracked) calls_.forget(target, sequence);
  };
  workers_.ensure_reader();  // the receiver may give it up before the last segment was written
  std::size_t written = 0;
  try {
    splitter_for(*link, payload.size()).split(payload, [&](const segment::Segment& one) {
      if (waiter.done()) throw AnsweredAlready{};  // the receiver has given it up
      const TimePoint deadline = fs::monotonic_now() + timeout;
      link->send_segment(one, {type, wire::flag_ack_requested, {}, deadline, false, track, unordered});
      report(progress, one, written, payload.size());
    });
    const TimePoint deadline = fs::monotonic_now() + timeout;
    for (const std::uint64_t sequence : tracked) calls_.track_ack(target, sequence, deadline, answered);
  } catch (const AnsweredAlready&) {
    context_.stats.count(core::counters::payloads_given_up);
  } catch (...) {
    forget();
    throw;
  }
  Value waiting;
  try {
    waiting = waiter.result(workers_);
  } catch (...) {
    forget();
    throw;
  }
  forget();
  return waiting == Value(true);
}

LinkPtr LargeSender::link_to(const std::string& target, std::size_t payload_bytes, Duration timeout) const {
  LinkPtr link = links_.granted(target, fs::monotonic_now() + timeout);
  if (payload_bytes <= wire::limits::max_payload_bytes || links_.takes_segments(target)) return link;
  throw PayloadTooLargeError(std::to_string(payload_bytes) + " bytes for '" + target +
                             "', which takes no payloads in segments: send less or in parts");
}

segment::Splitter link_splitter(std::size_t segment_size, double parity_rate) {
  constexpr std::size_t most = wire::limits::max_payload_bytes - segment::max_head_bytes;
  if (segment_size <= most) return segment::Splitter(segment_size, parity_rate);
  throw ConfigurationError("segment_size " + std::to_string(segment_size) +
                           " cannot be used: an envelope holds at most " + std::to_string(most));
}

}  // namespace speed::engine
