// Which segments are kept, of whom and for how long (G-12, G-13, G-15, G-16). Knows sizes and times, no bytes.
// Threads: for one at a time.
#pragma once

#include <list>
#include <map>
#include <vector>

#include "speed/segment.hpp"
#include "wire/time.hpp"

namespace speed::segment {

// One payload that is being put together.
struct Reconstruction {
  Key key;
  unsigned data_count = 0;
  unsigned parity_count = 0;
  TimePoint begun = {};
  TimePoint touched = {};  // when its last new segment came
  std::size_t segment_size = 0;  // 0 while only the last data segment is held
  std::map<unsigned, std::size_t> sizes = {};  // slot -> bytes held
  std::size_t buffered = 0;

  bool contradicts(const Segment& segment) const;  // it cannot be a segment of this payload (G-12)
  void place(unsigned slot, std::size_t size);     // notes what lies in a slot that was free
  bool is_ready() const { return sizes.size() >= data_count; }
};

class Reassembly {
 public:
  enum class Placing { kept, held, ready, done };  // held: a duplicate if the bytes are the same, else SEGMENT_CONFLICT
  struct Admission {
    Placing placing = Placing::kept;
    std::vector<Key> evicted = {};
  };
  struct Expired {
    std::vector<Key> incomplete;
    std::vector<Key> completions;
  };

  explicit Reassembly(const Limits& limits = {}) : limits_(limits) {}

  // What is to be done with a valid segment, and who was evicted for it. After `ready` the payload waits for `complete`
  // or `discard`. `most_bytes` is a lower limit of this payload. WireError SEGMENT_CONFLICT, SEGMENT_LIMIT.
  Admission admit(const Key& key, const Segment& segment, TimePoint now, std::size_t most_bytes = SIZE_MAX);
  const Reconstruction* find(const Key& key) const;  // null when nothing is known, or all is done
  bool is_complete(const Key& key) const { return done_.contains(key); }
  std::vector<Key> complete(const Key& key, TimePoint now);  // returns the completions that were forgotten for it
  void discard(const Key& key);  // so that it may be sent anew
  Expired expire(TimePoint now);

  // What a store kept, each in the order of its time; ready payloads wait for a segment that comes again.
  void restore(Reconstruction kept) { gathering_.push_back(std::move(kept)); }
  void restore(const Key& completed, TimePoint since);

 private:
  using Gathering = std::list<Reconstruction>;  // the one that waited longest for a segment first
  struct Done {
    Key key;
    TimePoint since = {};
  };

  Gathering::iterator gathering(const Key& key);
  void check_size(const Segment& segment, std::size_t most) const;
  std::vector<Key> make_room(const Reconstruction& one, std::size_t size, bool is_new);
  const Reconstruction* victim(const Reconstruction& one, std::size_t size, bool is_new,
                               const std::vector<Key>& gone) const;
  void forget(const Key& key);

  Limits limits_;
  Gathering gathering_;
  std::map<Key, Reconstruction> ready_;
  std::map<std::string, std::list<Done>> done_of_;  // by sender, the oldest first
  std::map<Key, std::list<Done>::iterator> done_;
};

}  // namespace speed::segment
