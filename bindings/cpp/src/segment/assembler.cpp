// Segments of any sender in, whole payloads out, in memory.
#include <algorithm>
#include <map>

#include "segment/reassembly.hpp"
#include "segment/rebuild.hpp"
#include "speed/error.hpp"

namespace speed::segment {

namespace {

// The segments of one payload, in memory.
class MemoryShards : public Shards {
 public:
  MemoryShards(unsigned data_count, unsigned parity_count) : data_count_(data_count), parity_count_(parity_count) {}

  unsigned data_count() const override { return data_count_; }
  unsigned parity_count() const override { return parity_count_; }
  std::size_t segment_size() const override { return segment_size_; }
  bool has(unsigned slot) const override { return parts_.contains(slot); }
  std::size_t size_of(unsigned slot) const override { return parts_.at(slot).size(); }

  ByteView read(unsigned slot, std::size_t begin, std::size_t end, Bytes&) const override {
    return ByteView(parts_.at(slot)).subspan(begin, end - begin);
  }

  void write(unsigned slot, std::size_t begin, ByteView data) override {
    Bytes& part = parts_[slot];
    part.resize(segment_size_);
    std::ranges::copy(data, part.begin() + static_cast<std::ptrdiff_t>(begin));
  }

  void put(const Segment& segment) {
    parts_[segment.slot()].assign(segment.payload.begin(), segment.payload.end());
    if (!segment.is_last_data() || data_count_ == 1) segment_size_ = segment.payload.size();
  }

  bool holds(const Segment& segment) const { return std::ranges::equal(parts_.at(segment.slot()), segment.payload); }

  Bytes payload(std::size_t size) const {
    Bytes whole;
    whole.reserve(size);
    for (unsigned index = 0; index < data_count_; ++index) {
      const ByteView part = parts_.at(index);
      const ByteView counted = part.first(std::min(part.size(), size - whole.size()));
      whole.insert(whole.end(), counted.begin(), counted.end());
    }
    return whole;
  }

 private:
  unsigned data_count_;
  unsigned parity_count_;
  std::size_t segment_size_ = 0;
  std::map<unsigned, Bytes> parts_;
};

}  // namespace

class Assembler::Impl {
 public:
  explicit Impl(const Limits& limits) : reassembly_(limits) {}

  Outcome receive(const Key& key, const Segment& segment, TimePoint now) {
    const Reassembly::Admission admission = reassembly_.admit(key, segment, now);
    for (const Key& other : admission.evicted) shards_.erase(other);
    if (admission.placing == Reassembly::Placing::done) return {Verdict::done};
    MemoryShards& shards = shards_.try_emplace(key, segment.data_count, segment.parity_count).first->second;
    if (admission.placing == Reassembly::Placing::held) {
      if (shards.holds(segment)) return {Verdict::duplicate};
      throw WireError("SEGMENT_CONFLICT", "has other bytes than the segment that came before");
    }
    shards.put(segment);
    if (admission.placing == Reassembly::Placing::kept) return {Verdict::kept};
    return finish(key, shards, now);
  }

  std::vector<Key> expire(TimePoint now) {
    std::vector<Key> late = reassembly_.expire(now).incomplete;
    for (const Key& key : late) shards_.erase(key);
    return late;
  }

 private:
  Outcome finish(const Key& key, MemoryShards& shards, TimePoint now) {
    try {
      Bytes payload = shards.payload(rebuild(shards, key.hash));
      reassembly_.complete(key, now);
      shards_.erase(key);
      return {Verdict::complete, std::move(payload)};
    } catch (...) {
      reassembly_.discard(key);
      shards_.erase(key);
      throw;
    }
  }

  Reassembly reassembly_;
  std::map<Key, MemoryShards> shards_;
};

Assembler::Assembler(const Limits& limits) : impl_(std::make_unique<Impl>(limits)) {}
Assembler::~Assembler() = default;

Outcome Assembler::receive(const std::string& sender, ByteView data, TimePoint now, unsigned kind) {
  impl_->expire(now);
  const Segment segment = read_segment(data);
  return impl_->receive({sender, kind, segment.hash}, segment, now);
}

std::vector<Key> Assembler::expire(TimePoint now) { return impl_->expire(now); }

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kept: return "kept";
    case Verdict::duplicate: return "duplicate";
    case Verdict::complete: return "complete";
    case Verdict::done: return "done";
  }
  return "";
}

}  // namespace speed::segment
