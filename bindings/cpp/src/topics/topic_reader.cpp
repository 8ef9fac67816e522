#include "topics/topic_reader.hpp"

#include <algorithm>
#include <iterator>

#include "fs/clock.hpp"

namespace speed::engine {

TopicReader::TopicReader(std::shared_ptr<const TopicHost> host, const Start& start, const ReaderOptions& options)
    : host_(std::move(host)), prefetch_(options.prefetch), next_(start.value()) {
  const std::int64_t end = options.compacted ? answered<std::int64_t>(host_->ask("describe", {}), "end") : 0;
  fetch(Duration::zero());  // where the latest is, is now
  if (options.compacted) compact(end);
}

std::optional<TopicMessage> TopicReader::receive(std::optional<Duration> timeout) {
  const TimePoint began = fs::monotonic_now();
  while (waiting_.empty()) {
    const Duration left = timeout ? began + *timeout - fs::monotonic_now() : topic_wait;
    fetch(std::clamp(left, Duration::zero(), topic_wait));
    const bool is_late = timeout && fs::monotonic_now() >= began + *timeout;
    if (waiting_.empty() && is_late) return std::nullopt;
  }
  TopicMessage message = std::move(waiting_.front());
  waiting_.pop_front();
  return message;
}

void TopicReader::fetch(Duration wait) {
  const Value answer = host_->ask("read",
                                  {{"start", next_},
                                   {"most", prefetch_},
                                   {"wait_ms", std::chrono::duration_cast<std::chrono::milliseconds>(wait).count()}},
                                  wait + topic_grace);
  std::vector<TopicMessage> messages = host_->messages(answer);
  next_ = answered<std::int64_t>(answer, "next");
  std::ranges::move(messages, std::back_inserter(waiting_));
}

void TopicReader::compact(std::int64_t end) {
  std::map<std::string, TopicMessage> last;
  std::vector<TopicMessage> kept;  // those without a key, at first
  while (!waiting_.empty()) {
    for (TopicMessage& message : waiting_) {
      if (message.key) {
        last.insert_or_assign(*message.key, std::move(message));
      } else {
        kept.push_back(std::move(message));
      }
    }
    waiting_.clear();
    if (next_.as<std::int64_t>() < end) fetch(Duration::zero());
  }
  for (auto& [key, message] : last) {
    if (!message.is_tombstone) kept.push_back(std::move(message));
  }
  std::ranges::sort(kept, {}, &TopicMessage::offset);
  std::ranges::move(kept, std::back_inserter(waiting_));
}

}  // namespace speed::engine
