#include "segment/reassembly.hpp"

#include <algorithm>

#include "speed/error.hpp"

namespace speed::segment {

namespace {

[[noreturn]] void refuse(std::size_t bytes, const char* why) {
  throw WireError("SEGMENT_LIMIT", std::to_string(bytes) + " bytes of one payload " + why);
}

bool is_in(const Key& key, const std::vector<Key>& keys) { return std::ranges::find(keys, key) != keys.end(); }

}  // namespace

bool Reconstruction::contradicts(const Segment& segment) const {
  if (segment.data_count != data_count || segment.parity_count != parity_count) return true;
  const std::size_t size = segment.payload.size();
  if (segment.is_last_data()) return segment_size != 0 && size > segment_size;
  if (segment_size != 0) return size != segment_size;
  const auto last = sizes.find(data_count - 1);
  return last != sizes.end() && size < last->second;
}

void Reconstruction::place(unsigned slot, std::size_t size) {
  if (slot != data_count - 1) segment_size = size;
  sizes[slot] = size;
  buffered += size;
}

Reassembly::Gathering::iterator Reassembly::gathering(const Key& key) {
  return std::ranges::find(gathering_, key, &Reconstruction::key);
}

const Reconstruction* Reassembly::find(const Key& key) const {
  if (const auto ready = ready_.find(key); ready != ready_.end()) return &ready->second;
  const auto found = std::ranges::find(gathering_, key, &Reconstruction::key);
  return found == gathering_.end() ? nullptr : &*found;
}

Reassembly::Admission Reassembly::admit(const Key& key, const Segment& segment, TimePoint now, std::size_t most_bytes) {
  if (done_.contains(key)) return {Placing::done};
  const Reconstruction* const known = find(key);
  if (known != nullptr) {
    if (known->contradicts(segment)) {
      throw WireError("SEGMENT_CONFLICT", "contradicts what came before of the same payload");
    }
    if (known->sizes.contains(segment.slot())) return {Placing::held};
    if (known->is_ready()) return {Placing::done};
  }
  check_size(segment, std::min(most_bytes, limits_.payload_bytes));
  Reconstruction one{.key = key, .data_count = segment.data_count, .parity_count = segment.parity_count, .begun = now};
  if (known != nullptr) one = *known;
  Admission admission;
  if (segment.data_count > 1) admission.evicted = make_room(one, segment.payload.size(), known == nullptr);
  one.place(segment.slot(), segment.payload.size());
  one.touched = now;
  if (known != nullptr) gathering_.erase(gathering(key));
  if (one.is_ready()) {
    admission.placing = Placing::ready;
    ready_.emplace(key, std::move(one));
  } else {
    gathering_.push_back(std::move(one));
  }
  return admission;
}

std::vector<Key> Reassembly::complete(const Key& key, TimePoint now) {
  discard(key);
  if (!done_.contains(key)) restore(key, now);
  std::vector<Key> forgotten;
  const auto forget_oldest_of = [&](const std::string& sender) {
    forgotten.push_back(done_of_.at(sender).front().key);
    forget(forgotten.back());
  };
  if (done_of_.at(key.sender).size() > limits_.sender_completions) forget_oldest_of(key.sender);
  const auto fewer = [](const auto& left, const auto& right) { return left.second.size() < right.second.size(); };
  while (done_.size() > limits_.completions) forget_oldest_of(std::ranges::max_element(done_of_, fewer)->first);
  return forgotten;
}

void Reassembly::discard(const Key& key) {
  ready_.erase(key);
  if (const auto found = gathering(key); found != gathering_.end()) gathering_.erase(found);
}

Reassembly::Expired Reassembly::expire(TimePoint now) {
  Expired expired;
  std::erase_if(gathering_, [&](const Reconstruction& one) {
    const bool is_late = now - one.touched >= limits_.idle || now - one.begun >= limits_.total;
    if (is_late) expired.incomplete.push_back(one.key);
    return is_late;
  });
  for (const auto& [sender, list] : done_of_) {
    for (const Done& done : list) {
      if (now - done.since < limits_.completion) break;
      expired.completions.push_back(done.key);
    }
  }
  for (const Key& key : expired.completions) forget(key);
  return expired;
}

void Reassembly::restore(const Key& completed, TimePoint since) {
  std::list<Done>& list = done_of_[completed.sender];
  done_[completed] = list.insert(list.end(), {completed, since});
}

void Reassembly::forget(const Key& key) {
  const auto found = done_.find(key);
  const auto list = done_of_.find(key.sender);
  list->second.erase(found->second);
  if (list->second.empty()) done_of_.erase(list);
  done_.erase(found);
}

void Reassembly::check_size(const Segment& segment, std::size_t most) const {
  const std::size_t size = segment.payload.size();
  const std::size_t least = segment.is_last_data() ? size : (segment.data_count - 1) * size + 1;
  if (least > most) refuse(least, "and more exceed its limit");
}

// Evicts until a segment of `size` bytes fits (G-16); if it cannot, nothing was evicted for it.
std::vector<Key> Reassembly::make_room(const Reconstruction& one, std::size_t size, bool is_new) {
  const std::size_t alone = size + one.buffered;
  if (alone > std::min(limits_.sender_buffered_bytes, limits_.buffered_bytes)) refuse(alone, "find no room");
  std::vector<Key> evicted;
  while (const Reconstruction* const other = victim(one, size, is_new, evicted)) evicted.push_back(other->key);
  std::erase_if(gathering_, [&](const Reconstruction& other) { return is_in(other.key, evicted); });
  return evicted;
}

// The next one that has to go for `size` bytes more of `one`; null when there is room. `gone` went already.
const Reconstruction* Reassembly::victim(const Reconstruction& one, std::size_t size, bool is_new,
                                         const std::vector<Key>& gone) const {
  struct Shortage {
    std::size_t of_sender, in_total, more;
    bool is_bytes;
  };
  const Shortage shortages[] = {{limits_.sender_reconstructions, limits_.reconstructions, is_new ? 1U : 0U, false},
                                {limits_.sender_buffered_bytes, limits_.buffered_bytes, size, true}};
  const auto longest_waiting = [&](const std::string& sender) {
    for (const Reconstruction& other : gathering_) {
      if (other.key.sender == sender && other.key != one.key && !is_in(other.key, gone)) return &other;
    }
    refuse(size + one.buffered, "find no room");
  };
  for (const Shortage& shortage : shortages) {
    if (shortage.more == 0) continue;
    std::map<std::string, std::size_t> held = {{one.key.sender, shortage.more}};
    std::size_t total = shortage.more;
    for (const Reconstruction& other : gathering_) {
      if (is_in(other.key, gone)) continue;
      const std::size_t share = shortage.is_bytes ? other.buffered : 1;
      held[other.key.sender] += share;
      total += share;
    }
    if (held[one.key.sender] > shortage.of_sender) return longest_waiting(one.key.sender);
    if (total <= shortage.in_total) continue;
    const std::string* largest = &one.key.sender;
    for (const Reconstruction& other : gathering_) {  // of equals the one whose payload has waited longest
      if (held[other.key.sender] > held[*largest]) largest = &other.key.sender;
    }
    return longest_waiting(*largest);
  }
  return nullptr;
}

}  // namespace speed::segment
