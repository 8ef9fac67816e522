// The part of LaneReader that counts how often messages that came again were begun (L-25).
#include "fs/lane_reader.hpp"

namespace speed::fs {

std::uint32_t LaneReader::deliveries(std::uint64_t sequence) const {
  const auto found = deliveries_.find(sequence);
  return found == deliveries_.end() ? 1 : found->second;
}

void LaneReader::begin_again(std::uint64_t sequence, std::uint32_t count) {
  deliveries_[sequence] = count;
  write_deliveries();
}

// Takes over what the newest authentic file says; those of older generations go once there is one of this.
void LaneReader::read_deliveries() {
  for (const std::uint32_t generation : listing_.deliveries) {
    if (generation > generation_) continue;
    if (auto found = files_.read_deliveries(generation)) {
      deliveries_ = std::move(*found);
      break;
    }
    count("deliveries_damaged");
  }
  if (!deliveries_.empty()) write_deliveries();
  const bool is_kept = std::ranges::find(listing_.deliveries, generation_) != listing_.deliveries.end();
  for (const std::uint32_t generation : listing_.deliveries) {
    if (generation < generation_ && (is_kept || deliveries_.empty())) files_.remove(wire::deliveries_name(generation));
  }
}

// Without those that are finished. A count that cannot be written is one less after a crash.
void LaneReader::write_deliveries() {
  std::erase_if(deliveries_, [&](const auto& one) {
    return one.first <= link_.last_sequence() && !progress_.holds(one.first);
  });
  while (deliveries_.size() > wire::max_deliveries_listed) deliveries_.erase(deliveries_.begin());
  try {
    files_.write_deliveries(generation_, deliveries_);
    if (std::ranges::find(listing_.deliveries, generation_) == listing_.deliveries.end()) {
      listing_.deliveries.push_back(generation_);
    }
  } catch (const std::system_error&) {
    count("deliveries_unwritten");
  }
}

}  // namespace speed::fs
