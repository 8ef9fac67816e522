#include "runtime/workers.hpp"

#include <utility>

#include "fs/bell.hpp"
#include "fs/clock.hpp"

namespace speed::runtime {

namespace {

constexpr double tick_seconds = 0.001;
constexpr int idle_ticks = 30;          // the relief sleeps after so many ticks without anything to look at
constexpr std::uint64_t slow_tasks = 8; // that end in one tick; with fewer the queue gets another runner
constexpr double flush_seconds = 0.0005;
constexpr std::size_t flush_answers = 64;
constexpr double task_seconds = 1.0;    // how long the end waits for running tasks

thread_local const Workers* runs_for = nullptr;
thread_local const Workers* reads_for = nullptr;  // whose turn of reading this thread takes
thread_local bool holds_gate = false;  // this thread took a task in order and did not enter it yet

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

Workers::~Workers() {
  for (Member& member : members_) {
    if (member.thread.joinable()) member.thread.detach();
  }
}

void Workers::start(Duties duties, const std::shared_ptr<void>& owner) {
  duties_ = std::move(duties);
  owner_ = owner;
  {
    const std::lock_guard guard(lock_);
    spawn(&Workers::relieve);
  }
  call_member();
}

void Workers::spawn(void (Workers::*body)()) {
  auto ended = std::make_shared<std::atomic<bool>>(false);
  auto owner = owner_.lock();
  members_.push_back({std::thread([this, body, ended, owner = std::move(owner)]() mutable {
                        fs::block_signals();
                        (this->*body)();
                        *ended = true;
                        owner.reset();
                      }),
                      ended});
}

// --- tasks ---

void Workers::queue(Task task) { put({std::move(task), false}); }
void Workers::queue_in_order(Task task) { put({std::move(task), true}); }

void Workers::put(Queued task) {
  const std::lock_guard guard(lock_);
  tasks_.push_back(std::move(task));
}

void Workers::entered() {
  if (!std::exchange(holds_gate, false)) return;
  const std::lock_guard guard(lock_);
  gate_closed_ = false;
  gate_opened_.notify_one();
}

void Workers::submit(Task task) {
  if (stopping_) return;
  queue(std::move(task));
  if (!on_worker()) call_member();
}

void Workers::follow(Task task) {
  if (reads_for == this) {
    queue(std::move(task));
  } else {
    submit(std::move(task));
  }
}

bool Workers::on_worker() const { return runs_for == this; }

bool Workers::has_tasks() {
  const std::lock_guard guard(lock_);
  return !tasks_.empty();
}

bool Workers::has_runnable() {
  const std::lock_guard guard(lock_);
  return !tasks_.empty() && running_ < size_;
}

bool Workers::is_running() {
  const std::lock_guard guard(lock_);
  return running_ > 0;
}

// --- members ---

// Has one more thread look for work: a resting one, or a new one while there may be more.
void Workers::call_member() {
  const std::lock_guard guard(lock_);
  if (resting_ > calls_) {
    ++calls_;
    called_.notify_one();
  } else if (workers_ <= size_ && !stopping_) {
    ++workers_;
    spawn(&Workers::member);
  }
}

void Workers::member() {
  while (!stopping_) {
    if (role_.try_take()) {
      hold_role();
      if (!has_tasks()) rest(true);
    }
    if (begin()) {
      run();
    } else if (role_.is_held()) {
      rest(false);
    }
  }
}

// Reads until there is something to run, or a caller wants to read its answers itself.
void Workers::hold_role() {
  while (!stopping_) {
    ++turns_;
    step(!has_runnable());
    if (has_runnable()) break;
    if (caller_waits_ && callers_may_read()) break;
  }
  role_.give_up();
}

void Workers::step(bool wait) noexcept {
  reads_for = this;
  try {
    duties_.step(wait);
  } catch (...) {
    pause(0.05);  // counted where it happened; whatever failed is looked at again
  }
  reads_for = nullptr;
}

bool Workers::flush(bool may_wait) noexcept {
  try {
    return duties_.flush(may_wait);
  } catch (...) {
    return true;  // counted where it happened
  }
}

bool Workers::callers_may_read() { return !serves_ && duties_.calls() == 0; }

// Sleeps until called; not if there is something to do. `yielding`: leaves the free role to callers.
void Workers::rest(bool yielding) {
  std::unique_lock guard(lock_);
  if (stopping_ || (!tasks_.empty() && running_ < size_)) return;
  if (yielding) {
    if (!caller_waits_ || !callers_may_read()) return;
    caller_waits_ = false;
    relief_sleeps_ = false;  // somebody should notice if the role stays free
    relief_called_.notify_all();
  } else if (!role_.is_held()) {
    return;
  }
  ++resting_;
  called_.wait(guard, [&] { return calls_ > 0 || stopping_; });
  --resting_;
  if (calls_ > 0) --calls_;
}

bool Workers::begin() {
  const std::lock_guard guard(lock_);
  if (tasks_.empty() || running_ >= size_) return false;
  ++running_;
  return true;
}

// Runs tasks until none is queued; answers leave in between when they are many or old.
void Workers::run() {
  runs_for = this;
  watch();
  double looked = fs::monotonic_seconds();
  double flushed = looked;
  Queued task;
  while (true) {
    if (!take(task)) {
      if (!stopping_) flush(true);
      if (end_run()) break;
      continue;
    }
    task.run();  // tasks catch what they call
    task.run = nullptr;
    entered();
    ++ended_;
    if (stopping_) continue;
    const double now = fs::monotonic_seconds();
    if (now - flushed > flush_seconds || duties_.answers() >= flush_answers) {
      flush(true);
      flushed = now;
    }
    if (now - looked > tick_seconds) {
      look_in();
      looked = now;
    }
  }
  runs_for = nullptr;
}

// Between taking a task in order and its entering, no thread takes another: requests start in order (S-5), however
// the threads are scheduled.
bool Workers::take(Queued& task) {
  std::unique_lock guard(lock_);
  gate_opened_.wait(guard, [&] { return !gate_closed_ || tasks_.empty(); });
  if (tasks_.empty()) return false;
  task = std::move(tasks_.front());
  tasks_.pop_front();
  gate_closed_ = holds_gate = task.in_order;
  if (tasks_.empty()) gate_opened_.notify_all();  // nothing is left to wait for
  if (!gate_closed_) gate_opened_.notify_one();   // who takes the next one wakes another
  return true;
}

bool Workers::end_run() {
  const std::lock_guard guard(lock_);
  if (!tasks_.empty()) return false;
  --running_;
  if (running_ == 0) settled_.notify_all();
  return true;
}

// Reads what came meanwhile, without waiting, if nobody else does.
void Workers::look_in() {
  if (!role_.try_take()) return;
  ++turns_;
  step(false);
  role_.give_up();
}

// --- callers ---

void Workers::lead(const std::atomic<bool>& done, const std::function<bool()>& interrupted) {
  const bool worker = on_worker();
  if (!worker && serves_) return;
  if (!role_.try_take()) {
    if (!worker) caller_waits_ = true;
    return;
  }
  while (!done && !stopping_) {
    ++turns_;
    step(true);
    if (has_tasks()) call_member();
    if (!done && interrupted && interrupted()) break;
  }
  role_.give_up();
  if (has_tasks() || duties_.calls() > 0) {
    call_member();
  } else {
    watch();
  }
}

void Workers::ensure_reader() {
  if (!on_worker() && !role_.is_held()) call_member();
}

// --- relief ---

// Has the relief look on: the role is free for now, and somebody should notice if it stays so.
void Workers::watch() {
  if (!relief_sleeps_) return;
  const std::lock_guard guard(lock_);
  relief_sleeps_ = false;
  relief_called_.notify_all();
}

void Workers::relieve() {
  int idle = 0;
  while (!stopping_) {
    if (idle >= idle_ticks) {
      relief_sleeps_ = true;
      if (!needs_relief()) {
        std::unique_lock guard(lock_);
        relief_called_.wait(guard, [&] { return !relief_sleeps_ || stopping_; });
      }
      relief_sleeps_ = false;
      idle = 0;
    }
    const std::uint64_t ended = ended_;
    const std::uint64_t turns = turns_;
    const bool unsent = duties_.answers() > 0;
    pause(tick_seconds);
    idle = needs_relief() ? 0 : idle + 1;
    // While it waits nobody might read: a worker waits for room, if need be one with nothing else to do.
    if (unsent && ended_ == ended && !flush(false) && !is_running()) submit([] {});
    if (is_running()) at_each_tick_();
    const bool slow = ended_ - ended < slow_tasks;
    if (slow && !role_.is_held() && (has_tasks() || turns_ == turns)) call_member();
  }
}

bool Workers::needs_relief() {
  return !role_.is_held() || is_running();
}

// --- the end ---

bool Workers::drain(double timeout_seconds) {
  std::unique_lock guard(lock_);
  return settled_.wait_for(guard, std::chrono::duration<double>(timeout_seconds),
                           [&] { return running_ == 0 && tasks_.empty(); });
}

void Workers::stop(double timeout_seconds) {
  {
    const std::lock_guard guard(lock_);
    stopping_ = true;
    tasks_.clear();
    gate_opened_.notify_all();
    called_.notify_all();
    relief_called_.notify_all();
  }
  duties_.wake();
  role_.wait_until_free(timeout_seconds);
  std::vector<Member> members;
  {
    const std::lock_guard guard(lock_);
    members.swap(members_);
  }
  const double deadline = fs::monotonic_seconds() + task_seconds;
  for (Member& member : members) {
    const bool is_self = member.thread.get_id() == std::this_thread::get_id();
    while (!is_self && !*member.ended && fs::monotonic_seconds() < deadline) pause(tick_seconds);
    if (*member.ended) {
      member.thread.join();
    } else {
      member.thread.detach();  // a service holds it up; it holds what it needs
    }
  }
}

}  // namespace speed::runtime
