#include "engine/lane/inbound_lane.hpp"

namespace speed::engine {

namespace {

// Finished after they were handled; all other types are done when they are read (L-15).
bool is_work(wire::EnvelopeType type) {
  return type == wire::EnvelopeType::message || type == wire::EnvelopeType::spc_request ||
         type == wire::EnvelopeType::event;
}

}  // namespace

InboundLane::InboundLane(std::string source, std::unique_ptr<fs::LaneReader> reader,
                         std::function<void(const wire::NodeId&)> resume, std::shared_ptr<const fs::ForkMark> mark)
    : Lane(std::move(source)),
      id_(wire::node_id(this->source())),
      reader_(std::move(reader)),
      resume_(std::move(resume)),
      mark_(std::move(mark)) {}

bool InboundLane::read(std::vector<fs::Received>& received, std::size_t most, TimePoint now, bool scan) {
  const MutexLock guard(lock_);
  received.clear();
  if (reader_ == nullptr) return false;
  rests_ = false;
  paused_ = reader_->is_full();
  if (paused_) return false;
  more_ = reader_->read(received, most, now, scan);
  for (const fs::Received& envelope : received) {
    if (!is_work(envelope.header.type)) reader_->finish(envelope.header.sequence, true);
  }
  return more_;
}

void InboundLane::finish(std::span<const std::uint64_t> sequences) {
  if (mark_->is_copied()) return;  // a lock of it may be held for ever
  bool resume = false;
  {
    const MutexLock guard(lock_);
    if (reader_ == nullptr || sequences.empty()) return;
    for (std::size_t at = 0; at < sequences.size(); ++at) reader_->finish(sequences[at], at + 1 < sequences.size());
    stay_at_rest();
    resume = paused_ && !reader_->is_full();
  }
  if (resume) resume_(id_);
}

Lane::Begun InboundLane::begin(std::uint64_t sequence, bool may_run_again) {
  if (mark_->is_copied()) return Begun::unwritten;
  bool resume = false;
  Begun begun = Begun::unwritten;
  {
    const MutexLock guard(lock_);
    if (reader_ == nullptr) return begun;
    begun = reader_->begin(sequence, may_run_again);
    stay_at_rest();
    resume = paused_ && !reader_->is_full();
  }
  if (resume) resume_(id_);
  return begun;
}

bool InboundLane::keep_start() {
  const MutexLock guard(lock_);
  if (reader_ == nullptr) return false;
  const bool kept = reader_->keep_start();
  stay_at_rest();
  return kept;
}

bool InboundLane::is_closed() const {
  const MutexLock guard(lock_);
  return reader_ == nullptr;
}

unsigned InboundLane::deliveries(std::uint64_t sequence) const {
  const MutexLock guard(lock_);
  return reader_ == nullptr ? 1 : reader_->deliveries(sequence);
}

void InboundLane::begin_again(std::uint64_t sequence, unsigned count) {
  const MutexLock guard(lock_);
  if (reader_ == nullptr) return;
  reader_->begin_again(sequence, count);
  stay_at_rest();
}

std::string InboundLane::fingerprint(const wire::KeyId& key_id) {
  const MutexLock guard(lock_);
  return reader_ == nullptr ? std::string() : reader_->fingerprint(key_id);
}

std::size_t InboundLane::unfinished() const {
  const MutexLock guard(lock_);
  return reader_ == nullptr ? 0 : reader_->unfinished();
}

bool InboundLane::is_read() const {
  const MutexLock guard(lock_);
  return reader_ != nullptr && !paused_ && !more_ && reader_->unfinished() == 0;
}

bool InboundLane::has_more() const {
  const MutexLock guard(lock_);
  return reader_ != nullptr && (paused_ || more_);
}

bool InboundLane::grew() const {
  const MutexLock guard(lock_);
  return reader_ != nullptr && !paused_ && reader_->grew();
}

void InboundLane::drop(std::uint64_t sequence) {
  const MutexLock guard(lock_);
  if (reader_ == nullptr) return;
  reader_->finish(sequence, true);
  stay_at_rest();
}

void InboundLane::rest() {
  const MutexLock guard(lock_);
  rests_ = true;
  stay_at_rest();
}

void InboundLane::stay_at_rest() {
  if (rests_ && reader_ != nullptr) reader_->rest();
}

void InboundLane::close(bool clean) {
  const MutexLock guard(lock_);
  if (reader_ == nullptr) return;
  if (clean) reader_->close_cleanly();
  last_counts_ = reader_->counts();
  reader_.reset();
}

std::map<std::string, std::uint64_t> InboundLane::counts() const {
  const MutexLock guard(lock_);
  return reader_ == nullptr ? last_counts_ : reader_->counts();
}

}  // namespace speed::engine
