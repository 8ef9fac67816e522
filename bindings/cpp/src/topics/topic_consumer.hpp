// One consumer of a subscription: what it has fetched, and how it joins, again where it must (D-8 to D-12).
// Threads: all methods may be called from any thread.
#pragma once

#include <atomic>
#include <deque>

#include "topics/topic_host.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class TopicConsumer {
 public:
  // `terms`: what `subscribe` is told beside who joins. Waits so long for a host that is away.
  TopicConsumer(std::shared_ptr<const TopicHost> host, std::string subscription, std::string name, Map terms,
                std::size_t prefetch, Duration wait);

  const std::string& name() const { return name_; }
  const std::string& subscription() const { return subscription_; }

  std::optional<TopicMessage> receive(std::optional<Duration> timeout);
  std::uint64_t acknowledge(const std::vector<TopicMessage>& messages) const;
  std::uint64_t acknowledge_until(const TopicMessage& message) const;
  std::uint64_t reject(const std::vector<TopicMessage>& messages, std::optional<Seconds> delay) const;
  void close();

 private:
  void join_within(Duration wait) SPEED_REQUIRES(lock_);
  void join() SPEED_REQUIRES(lock_);
  void join_again() SPEED_REQUIRES(lock_);
  bool fetch(Duration wait) SPEED_REQUIRES(lock_);  // whether there were messages
  void take(const Value& answer) SPEED_REQUIRES(lock_);
  std::optional<TopicMessage> next() SPEED_REQUIRES(lock_);
  void begin()
      SPEED_REQUIRES(lock_);  // asks whether the program may have more of what is at hand: the host counts that
  void begun(const Value& answer, std::size_t count) SPEED_REQUIRES(lock_);
  std::uint64_t settle(const std::vector<TopicMessage>& messages, bool until) const;
  // Asks; joins again where the host does not know this consumer.
  template <class Ask>
  void ask_joined(Ask ask) SPEED_REQUIRES(lock_);
  void leave(const Array& unseen) noexcept;
  Map who() const;
  Map question(Duration wait) const SPEED_REQUIRES(lock_);
  bool is_closing() const SPEED_EXCLUDES(closing_lock_);
  void pause() SPEED_EXCLUDES(closing_lock_);  // until the consumer is closed, a moment at most

  const std::shared_ptr<const TopicHost> host_;
  const std::string subscription_;
  const std::string name_;
  const Map terms_;
  const std::size_t prefetch_;

  Mutex lock_;  // held by who receives
  std::deque<TopicMessage> waiting_ SPEED_GUARDED_BY(lock_);
  std::int64_t got_ SPEED_GUARDED_BY(lock_) = 0;  // the number of the last answer with messages that came
  // How many of the first that wait the program may have now, how many it was to have at the last word of the host, and until
  // when that counts.
  std::size_t begun_ SPEED_GUARDED_BY(lock_) = 0;
  std::size_t window_ SPEED_GUARDED_BY(lock_) = 1;
  TimePoint fresh_until_ SPEED_GUARDED_BY(lock_) = {};
  // What an acknowledgement told of the subscription last; a seek makes it another one.
  mutable std::atomic<std::int64_t> acknowledged_epoch_ = -1;

  mutable Mutex closing_lock_ SPEED_ACQUIRED_AFTER(lock_);
  Condition closed_;
  bool closing_ SPEED_GUARDED_BY(closing_lock_) = false;
};

}  // namespace speed::engine
