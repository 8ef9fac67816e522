// The lane of a payload that was put together: it is complete before its last segment is committed (G-14).
// Threads: all methods may be called from any thread.
#pragma once

#include "runtime/inbound_lane.hpp"

namespace speed::runtime {

class AssembledLane : public Lane {
 public:
  AssembledLane(LanePtr lane, std::function<void()> completed)
      : Lane(lane->source()), lane_(std::move(lane)), completed_(std::move(completed)) {}

  void finish(std::span<const std::uint64_t> sequences) override {
    completed_();
    lane_->finish(sequences);
  }
  // The commit is what begins a request; a crash behind it leaves a payload that nobody asks for.
  Begun begin(std::uint64_t sequence, bool may_run_again) override {
    const Begun begun = lane_->begin(sequence, may_run_again);
    if (begun == Begun::written && !may_run_again) completed_();
    return begun;
  }
  bool keep_start() override { return lane_->keep_start(); }
  unsigned deliveries(std::uint64_t sequence) const override { return lane_->deliveries(sequence); }
  void begin_again(std::uint64_t sequence, unsigned count) override { lane_->begin_again(sequence, count); }
  bool is_closed() const override { return lane_->is_closed(); }
  void drop(std::uint64_t sequence) override {
    completed_();
    lane_->drop(sequence);
  }

 private:
  LanePtr lane_;
  std::function<void()> completed_;
};

}  // namespace speed::runtime
