// Messages of a topic from a place on (D-14).
// Threads: for one at a time.
#pragma once

#include <deque>

#include "topics/topic_host.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class TopicReader {
 public:
  TopicReader(std::shared_ptr<const TopicHost> host, const Start& start, const ReaderOptions& options);

  std::optional<TopicMessage> receive(std::optional<Duration> timeout);

 private:
  void fetch(Duration wait);
  // Leaves of what is before `end`, at least, the last message of each key, and those without one.
  void compact(std::int64_t end);

  const std::shared_ptr<const TopicHost> host_;
  const std::size_t prefetch_;
  Value next_;  // where to read on: an offset, or a start at first
  std::deque<TopicMessage> waiting_;
};

}  // namespace speed::engine
