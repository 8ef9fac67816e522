#include "runtime/answers.hpp"

#include <algorithm>

#include "fs/clock.hpp"
#include "speed/error.hpp"

namespace speed::runtime {

namespace {

constexpr std::size_t sent_at_once = 64;
constexpr double reply_wait_seconds = 5.0;  // how long an answer waits for room in the caller's full inbox

bool same_link(const Answer& one, const Answer& other) {
  return one.lane == other.lane && one.generation == other.generation;
}

}  // namespace

void Answers::add(Answer answer) {
  const std::lock_guard guard(lock_);
  waiting_.push_back(std::move(answer));
}

std::size_t Answers::waiting() const {
  const std::lock_guard guard(lock_);
  return waiting_.size();
}

std::vector<Answer> Answers::take() {
  const std::lock_guard guard(lock_);
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
        send(group, reply_wait_seconds);
      } else {
        left.insert(left.end(), std::move_iterator(group.begin()), std::move_iterator(group.end()));
      }
    }
  }
  if (left.empty()) return true;
  const std::lock_guard guard(lock_);
  waiting_.insert(waiting_.begin(), std::move_iterator(left.begin()), std::move_iterator(left.end()));
  return false;
}

// Sorts them by link; returns those whose link is full.
std::vector<std::span<Answer>> Answers::send_where_room(std::vector<Answer>& answers) {
  std::ranges::stable_sort(answers, {}, [](const Answer& one) { return std::pair(one.lane.get(), one.generation); });
  std::vector<std::span<Answer>> full;
  for (auto first = answers.begin(); first != answers.end();) {
    const auto last = std::find_if(first, answers.end(), [&](const Answer& one) { return !same_link(*first, one); });
    const std::span<Answer> group(first, last);
    if (!send(group, 0)) full.push_back(group);
    first = last;
  }
  return full;
}

// False if there is no room and `wait_seconds` is 0.
bool Answers::send(std::span<Answer> group, double wait_seconds) {
  const Answer& any = group.front();
  std::vector<ByteView> payloads;
  std::vector<std::uint64_t> sequences;
  for (const Answer& one : group) {
    payloads.push_back(one.payload.view());
    sequences.push_back(one.sequence);
  }
  try {
    const LinkPtr link = links_.open(any.lane->source(), any.generation);
    link->send({wire::EnvelopeType::spc_response, wire::flag_reply, payloads,
                fs::monotonic_seconds() + wait_seconds, wait_seconds == 0});
  } catch (const InboxFullError&) {
    if (wait_seconds == 0) return false;
    context_.stats.count("answers_undelivered", payloads.size());
  } catch (const std::exception&) {
    context_.stats.count("answers_undelivered", payloads.size());
  }
  any.lane->finish(sequences);
  for (Answer& one : group) context_.buffers.give(std::move(one.payload));
  return true;
}

}  // namespace speed::runtime
