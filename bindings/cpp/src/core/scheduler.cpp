#include "core/scheduler.hpp"

#include <algorithm>

#include "wire/limits.hpp"

namespace speed::core {

namespace {

constexpr std::uint64_t aged_turn = 8;    // each so many-th message is the one whose order has waited longest
constexpr std::size_t clear_from = 64;    // deadlines of ended work are kept up to here

template <class Timed>
bool is_later(const Timed& one, const Timed& other) {
  return one.at == other.at ? one.work->number > other.work->number : one.at > other.at;
}

template <class Timed>
void push(std::vector<Timed>& heap, Timed timed) {
  heap.push_back(std::move(timed));
  std::ranges::push_heap(heap, is_later<Timed>);
}

template <class Timed>
WorkPtr pop(std::vector<Timed>& heap) {
  std::ranges::pop_heap(heap, is_later<Timed>);
  WorkPtr work = std::move(heap.back().work);
  heap.pop_back();
  return work;
}

// Whether the deadline of this work still means something.
bool awaits(const Work& work) {
  const bool at_work = work.state == State::waiting || work.state == State::running || work.state == State::blocked;
  return work.state == State::unclaimed || (work.kind == Kind::request && at_work && !work.is_overdue);
}

}  // namespace

// --- arrivals ---

Admission Scheduler::request(const WorkPtr& work) {
  const auto known = accepted_.find(work->sender);
  if (known != accepted_.end() && known->second.contains(work->key)) return Admission::duplicate;
  if (life_ != Life::open) return Admission::leaving;
  work->number = ++numbers_;
  work->state = State::waiting;
  accepted_[work->sender].emplace(work->key, work);
  auto turn = turns_.find(work->sender);
  if (turn == turns_.end()) {
    turn = turns_.emplace(work->sender, ring_.insert(ring_.end(), Turn{work->sender, {}})).first;
  }
  turn->second->waiting.emplace_hint(turn->second->waiting.end(), work->number, work);
  note_deadline(work, work->deadline);
  return Admission::waiting;
}

bool Scheduler::message(const WorkPtr& work, TimePoint now, bool claimed) {
  if (life_ != Life::open) return false;
  if (work->order.empty()) work->order = work->sender;
  work->number = ++numbers_;
  if (claimed) {
    work->state = State::waiting;
    enqueue(work);
    return true;
  }
  work->state = State::unclaimed;
  unclaimed_[work->sender].push_back(work);
  if (work->is_event) note_deadline(work, now + wire::limits::unclaimed_event);
  return true;
}

void Scheduler::task(const WorkPtr& work) {
  work->number = ++numbers_;
  work->state = State::waiting;
  tasks_.push_back(work);
}

// --- workers ---

bool Scheduler::has(Kind kind) const {
  if (running_of(kind) >= workers_) return false;
  if (kind == Kind::request) return !ring_.empty();
  return kind == Kind::message ? !ready_.empty() : !tasks_.empty();
}

bool Scheduler::may_take(TimePoint now) const {
  if (life_ == Life::closed || running() > workers_) return false;
  const bool is_due = !back_off_.empty() && back_off_.front().at <= now && running_of(Kind::message) < workers_;
  return is_due || std::ranges::any_of(rotation_, [&](Kind kind) { return has(kind); });
}

WorkPtr Scheduler::find(const std::string& sender, const std::string& key) const {
  const auto of_sender = accepted_.find(sender);
  if (of_sender == accepted_.end()) return nullptr;
  const auto found = of_sender->second.find(key);
  return found == of_sender->second.end() ? nullptr : found->second;
}

WorkPtr Scheduler::take(TimePoint now) {
  end_back_off(now);
  if (life_ == Life::closed || running() > workers_) return nullptr;
  const auto found = std::ranges::find_if(rotation_, [&](Kind kind) { return has(kind); });
  if (found == rotation_.end()) return nullptr;
  const Kind kind = *found;
  std::rotate(found, found + 1, rotation_.end());  // it is looked for last the next time
  WorkPtr work = next_of(kind);
  ++running_of(kind);
  work->state = State::running;
  return work;
}

WorkPtr Scheduler::next_of(Kind kind) {
  if (kind == Kind::request) return next_request();
  if (kind == Kind::message) return next_message();
  WorkPtr work = std::move(tasks_.front());
  tasks_.pop_front();
  return work;
}

// The first of the sender whose turn it is; its next one waits until all others had theirs.
WorkPtr Scheduler::next_request() {
  const auto turn = ring_.begin();
  const auto first = turn->waiting.begin();
  WorkPtr work = std::move(first->second);
  turn->waiting.erase(first);
  if (turn->waiting.empty()) {
    turns_.erase(turn->sender);
    ring_.erase(turn);
  } else {
    ring_.splice(ring_.end(), ring_, turn);
  }
  return work;
}

WorkPtr Scheduler::next_message() {
  auto chosen = std::prev(ready_.end());
  if (++handled_ % aged_turn == 0) {
    chosen = std::ranges::min_element(ready_, {}, [](const auto& one) { return one.second.begin()->first; });
  }
  const std::string order = chosen->second.begin()->second;
  unready(order);
  busy_.insert(order);
  const auto queue = queues_.find(order);
  WorkPtr work = std::move(queue->second.front());
  queue->second.pop_front();
  if (queue->second.empty()) queues_.erase(queue);  // it is settled but for this one
  return work;
}

void Scheduler::done(const WorkPtr& work) {
  const bool was_handled = work->state == State::running || work->state == State::blocked;
  free_place(*work);
  work->state = State::ended;
  if (work->kind == Kind::request) {
    forget_accepted(*work);
  } else if (work->kind == Kind::message && was_handled) {
    let_follow(work->order);
  }
}

void Scheduler::again(const WorkPtr& work, TimePoint at) {
  free_place(*work);
  work->state = State::back_off;
  push(back_off_, {at, work});
}

bool Scheduler::blocked(const WorkPtr& work) {
  if (work->state != State::running || blocked_ >= wire::limits::max_blocked_workers) return false;
  free_place(*work);
  ++blocked_;
  work->state = State::blocked;
  return true;
}

void Scheduler::resumed(const WorkPtr& work) {
  if (work->state != State::blocked) return;
  --blocked_;
  ++running_of(work->kind);
  work->state = State::running;
}

void Scheduler::free_place(const Work& work) {
  if (work.state == State::running) --running_of(work.kind);
  if (work.state == State::blocked) --blocked_;
}

// --- messages in order ---

void Scheduler::enqueue(const WorkPtr& work) {
  queues_[work->order].push_back(work);
  make_ready(work->order);
}

// Lets the first message of an order be taken, unless one before it is still being handled.
void Scheduler::make_ready(const std::string& order) {
  const auto queue = queues_.find(order);
  if (queue == queues_.end()) return;
  if (queue->second.empty()) {
    queues_.erase(queue);
    return;
  }
  if (busy_.contains(order) || ready_at_.contains(order)) return;
  const std::pair place(queue->second.front()->priority, ++numbers_);
  ready_[place.first].emplace_hint(ready_[place.first].end(), place.second, order);
  ready_at_.emplace(order, place);
}

void Scheduler::unready(const std::string& order) {
  const auto at = ready_at_.find(order);
  if (at == ready_at_.end()) return;
  const auto rank = ready_.find(at->second.first);
  rank->second.erase(at->second.second);
  if (rank->second.empty()) ready_.erase(rank);
  ready_at_.erase(at);
}

void Scheduler::let_follow(const std::string& order) {
  busy_.erase(order);
  make_ready(order);
}

void Scheduler::end_back_off(TimePoint now) {
  while (!back_off_.empty() && back_off_.front().at <= now) {
    const WorkPtr work = pop(back_off_);
    work->state = State::waiting;
    queues_[work->order].push_front(work);
    let_follow(work->order);
  }
}

// --- what nothing takes yet ---

std::size_t Scheduler::claim(const std::function<bool(const Work&)>& takes) {
  std::map<std::string, std::vector<WorkPtr>> claimed;  // by order
  std::size_t count = 0;
  for (auto at = unclaimed_.begin(); at != unclaimed_.end();) {
    std::erase_if(at->second, [&](const WorkPtr& work) {
      if (!takes(*work)) return false;
      work->state = State::waiting;
      claimed[work->order].push_back(work);
      ++count;
      return true;
    });
    at = at->second.empty() ? unclaimed_.erase(at) : std::next(at);
  }
  for (const auto& [order, works] : claimed) merge(works);
  return count;
}

// Works of one order go where they would stand if they had been claimed when they came.
void Scheduler::merge(const std::vector<WorkPtr>& claimed) {
  const std::string& order = claimed.front()->order;
  std::deque<WorkPtr>& queue = queues_[order];
  unready(order);
  queue.insert(queue.end(), claimed.begin(), claimed.end());
  std::ranges::stable_sort(queue, {}, &Work::number);
  make_ready(order);
}

WorkPtr Scheduler::receive() {
  WorkPtr best;
  for (const auto& [sender, waiting] : unclaimed_) {
    const auto first = std::ranges::find(waiting, false, &Work::is_event);
    if (first == waiting.end()) continue;
    const bool is_better = best == nullptr || (*first)->priority > best->priority ||
                           ((*first)->priority == best->priority && (*first)->number < best->number);
    if (is_better) best = *first;
  }
  if (best == nullptr) return nullptr;
  remove_unclaimed(best);
  best->state = State::in_hand;
  return best;
}

void Scheduler::put_back(const WorkPtr& work) {
  work->state = State::unclaimed;
  unclaimed_[work->sender].push_front(work);
}

void Scheduler::remove_unclaimed(const WorkPtr& work) {
  const auto found = unclaimed_.find(work->sender);
  std::erase(found->second, work);
  if (found->second.empty()) unclaimed_.erase(found);
}

// --- withdrawal, departure, time ---

WorkPtr Scheduler::withdraw(const std::string& sender, const std::string& key) {
  const WorkPtr work = find(sender, key);
  if (work != nullptr && work->state == State::waiting) drop_request(work);
  return work;
}

std::vector<WorkPtr> Scheduler::forget(const std::string& sender, const std::function<bool(const Work&)>& which) {
  std::vector<WorkPtr> works;
  const auto of_sender = accepted_.find(sender);
  if (of_sender == accepted_.end()) return works;
  for (const auto& [key, work] : of_sender->second) {
    if (which(*work)) works.push_back(work);
  }
  std::ranges::sort(works, {}, &Work::number);
  for (const WorkPtr& work : works) {
    if (work->state == State::waiting) drop_request(work);
  }
  return works;
}

void Scheduler::drop_request(const WorkPtr& work) {
  work->state = State::ended;
  const auto turn = turns_.find(work->sender);
  turn->second->waiting.erase(work->number);
  if (turn->second->waiting.empty()) {
    ring_.erase(turn->second);
    turns_.erase(turn);
  }
  forget_accepted(*work);
}

void Scheduler::forget_accepted(const Work& work) {
  const auto of_sender = accepted_.find(work.sender);
  if (of_sender == accepted_.end()) return;
  of_sender->second.erase(work.key);
  if (of_sender->second.empty()) accepted_.erase(of_sender);
}

Overdue Scheduler::expire(TimePoint now) {
  Overdue found;
  while (!deadlines_.empty() && deadlines_.front().at <= now) {
    const WorkPtr work = pop(deadlines_);
    if (work->state == State::unclaimed) {
      remove_unclaimed(work);
      work->state = State::ended;
      found.unclaimed.push_back(work);
    } else if (work->kind == Kind::request && work->state == State::waiting) {
      drop_request(work);
      found.waiting.push_back(work);
    } else if (work->kind == Kind::request && (work->state == State::running || work->state == State::blocked)) {
      work->is_overdue = true;
      found.running.push_back(work);
    }
  }
  return found;
}

// Remembers a time; those that mean nothing any more are cleared out once they are the greater part.
void Scheduler::note_deadline(const WorkPtr& work, TimePoint deadline) {
  work->deadline = deadline;
  if (deadlines_.size() > clear_at_) {
    std::erase_if(deadlines_, [](const Timed& one) { return !awaits(*one.work); });
    std::ranges::make_heap(deadlines_, is_later<Timed>);
    clear_at_ = 2 * deadlines_.size() + clear_from;
  }
  push(deadlines_, {deadline, work});
}

std::optional<TimePoint> Scheduler::next_time() {
  while (!deadlines_.empty() && !awaits(*deadlines_.front().work)) pop(deadlines_);
  std::optional<TimePoint> next;
  for (const auto* const heap : {&deadlines_, &back_off_}) {
    if (!heap->empty()) next = std::min(next.value_or(heap->front().at), heap->front().at);
  }
  return next;
}

// --- the end ---

void Scheduler::leave() {
  if (life_ == Life::open) life_ = Life::leaving;
}

Load Scheduler::load() const {
  Load load;
  for (const Turn& turn : ring_) load.queued_requests += turn.waiting.size();
  for (const auto& [sender, accepted] : accepted_) load.running_requests += accepted.size();
  load.running_requests -= load.queued_requests;
  for (const auto& [order, waiting] : queues_) load.queued_messages += waiting.size();
  for (const auto& [sender, waiting] : unclaimed_) load.queued_messages += waiting.size();
  load.queued_messages += back_off_.size();
  return load;
}

bool Scheduler::is_settled(std::size_t but) const {
  const bool none_waits = ring_.empty() && tasks_.empty() && queues_.empty() && back_off_.empty();
  return none_waits && blocked_ + running() <= but;
}

std::vector<WorkPtr> Scheduler::close() {
  life_ = Life::closed;
  std::vector<WorkPtr> waiting;
  for (const Turn& turn : ring_) {
    for (const auto& [number, work] : turn.waiting) waiting.push_back(work);
  }
  for (const WorkPtr& work : waiting) drop_request(work);
  return waiting;
}

std::set<std::string> Scheduler::senders() const {
  std::set<std::string> names;
  for (const auto& [sender, works] : accepted_) names.insert(sender);
  return names;
}

}  // namespace speed::core
