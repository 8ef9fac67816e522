#include "engine/serve/answers.hpp"

#include <algorithm>

#include "core/counters.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "wire/value/spc.hpp"

namespace speed::engine {

namespace {

constexpr std::size_t sent_at_once = 64;
constexpr Duration reply_wait = 5s;  // how long an answer waits for room in the caller's full inbox

bool same_link(const Answer& one, const Answer& other) {
  return one.lane == other.lane && one.generation == other.generation;
}

}  // namespace

void Answers::add(Answer answer) {
  const MutexLock guard(lock_);
  waiting_.push_back(std::move(answer));
}

std::size_t Answers::waiting() const {
  const MutexLock guard(lock_);
  return waiting_.size();
}

std::vector<Answer> Answers::take() {
  const MutexLock guard(lock_);
  std::vector<Answer> taken;
  while (!waiting_.empty() && taken.size() < sent_at_once) {
    taken.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return taken;
}

bool Answers::flush(bool may_wait) {
  std::vector<Answer> left;
  for (std::vector<Answer> answers = take(); !answers.empty(); answers = take()) {
    for (const std::span<Answer> group : send_where_room(answers)) {
      if (may_wait) {
        send(group, reply_wait);
      } else {
        left.insert(left.end(), std::move_iterator(group.begin()), std::move_iterator(group.end()));
      }
    }
  }
  if (left.empty()) return true;
  const MutexLock guard(lock_);
  waiting_.insert(waiting_.begin(), std::move_iterator(left.begin()), std::move_iterator(left.end()));
  return false;
}

// Sorts them by link; returns those whose link is full.
std::vector<std::span<Answer>> Answers::send_where_room(std::vector<Answer>& answers) {
  const auto link = [](const Answer& one) { return std::pair(one.lane.get(), one.generation); };
  if (!std::ranges::is_sorted(answers, {}, link)) std::ranges::stable_sort(answers, {}, link);
  std::vector<std::span<Answer>> full;
  for (auto first = answers.begin(); first != answers.end();) {
    const auto last = std::find_if(first, answers.end(), [&](const Answer& one) { return !same_link(*first, one); });
    const std::span<Answer> group(first, last);
    if (!send(group, Duration::zero())) full.push_back(group);
    first = last;
  }
  return full;
}

// False if there is no room and `wait` is 0.
bool Answers::send(std::span<Answer> group, Duration wait) {
  commit(group, true);
  try {
    write(group, wait);
  } catch (const InboxFullError& error) {
    if (wait == Duration::zero()) return false;
    undelivered(group.size(), error);
  } catch (const PayloadTooLargeError&) {
    send_each(group, wait);
  } catch (const std::exception& error) {
    undelivered(group.size(), error);
  }
  commit(group, false);
  for (Answer& one : group) context_.buffers.give(std::move(one.payload));
  return true;
}

// What was not committed yet.
void Answers::commit(std::span<Answer> group, bool only_never_begun) {
  std::vector<std::uint64_t> sequences;
  for (Answer& one : group) {
    if (one.committed || (only_never_begun && !one.never_begins)) continue;
    sequences.push_back(one.sequence);
    one.committed = true;
  }
  if (!sequences.empty()) group.front().lane->finish(sequences);
}

void Answers::write(std::span<Answer> group, Duration wait) {
  std::vector<ByteView> payloads;
  for (const Answer& one : group) payloads.push_back(one.payload.view());
  const LinkPtr link = links_.open(group.front().lane->source(), group.front().generation);
  link->send({wire::EnvelopeType::spc_response, wire::flag_reply, payloads, fs::monotonic_now() + wait,
              wait == Duration::zero()});
}

// One of them cannot be sent: it harms no other, and its caller is told (S-3).
void Answers::send_each(std::span<Answer> group, Duration wait) {
  for (Answer& one : group) {
    try {
      write({&one, 1}, wait);
      continue;
    } catch (const PayloadTooLargeError& error) {
      one.payload.clear();
      wire::encode_error(one.request_id, "INTERNAL_ERROR", error.what(), {}, one.payload);
    } catch (const std::exception& error) {
      undelivered(1, error);
      continue;
    }
    try {
      write({&one, 1}, wait);
    } catch (const std::exception& error) {
      undelivered(1, error);
    }
  }
}

void Answers::undelivered(std::size_t count, const std::exception& error) {
  context_.stats.count(core::counters::answers_undelivered, count);
  context_.log.limited(LogLevel::warning, "speed.spc", "answers_undelivered",
                       std::string("an answer is lost: ") + error.what());
}

}  // namespace speed::engine
