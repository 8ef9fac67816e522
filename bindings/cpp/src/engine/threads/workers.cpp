#include "engine/threads/workers.hpp"

#include <algorithm>
#include <utility>

#include "fs/bell.hpp"
#include "fs/clock.hpp"
#include "fs/process.hpp"
#include "speed/interruption.hpp"

namespace speed::engine {

namespace {

constexpr Duration tick = 1ms;
constexpr int idle_ticks = 30;          // the relief sleeps after so many ticks without anything to look at
constexpr std::uint64_t slow_jobs = 8;  // that end in one tick; with fewer what waits gets another runner
constexpr Duration flush_period = 500us;
constexpr std::size_t flush_answers = 64;
constexpr Duration job_timeout = 500ms;     // how long the end waits for what still runs

thread_local Workers* runs_for = nullptr;
thread_local JobPtr present_job;                  // what this thread runs
thread_local std::thread::id present_thread;      // which thread really does, if this one only counts as it
thread_local bool present_ended = false;          // by its own word: it may be another thread's already
thread_local bool holds_turn = false;             // it took a request that has not begun yet
thread_local const Workers* reads_for = nullptr;  // whose turn of reading this thread takes

// A function as work.
struct TaskJob : Job {
  explicit TaskJob(Task run) : Job(core::Kind::task), task(std::move(run)) {}
  void run() override { std::exchange(task, nullptr)(); }
  Task task;
};

void pause(Duration span) { std::this_thread::sleep_for(span); }

}  // namespace

Workers::~Workers() {
  for (Member& member : members_) {
    if (member.thread.joinable()) member.thread.detach();
  }
}

void Workers::start(Callbacks callbacks, const std::shared_ptr<void>& owner) {
  callbacks_ = std::move(callbacks);
  owner_ = owner;
  {
    const MutexLock guard(lock_);
    spawn(&Workers::relieve);
  }
  call_member();
}

void Workers::spawn(void (Workers::*body)()) {
  auto ended = std::make_shared<std::atomic<bool>>(false);
  auto owner = owner_.lock();
  members_.push_back({std::thread([this, body, ended, owner = std::move(owner)]() mutable {
                        fs::block_signals();
                        fs::name_thread(body == &Workers::relieve ? "speed-relief" : "speed-worker");
                        (this->*body)();
                        *ended = true;
                        owner.reset();
                      }),
                      ended});
}

// --- what is to be run ---

void Workers::submit(Task task) {
  if (stopping_) return;
  {
    const MutexLock guard(lock_);
    scheduler_.task(std::make_shared<TaskJob>(std::move(task)));
  }
  notice();
}

void Workers::notice() {
  if (reads_for != this && !on_worker()) call_member();
}

bool Workers::on_worker() const { return runs_for == this; }

bool Workers::settle(const JobPtr& job) {
  const MutexLock guard(lock_);
  const bool in_time = !job->is_overdue;
  scheduler_.done(job);
  if (job == present_job) present_ended = true;
  return in_time;
}

void Workers::again(const JobPtr& job, TimePoint at) {
  {
    const MutexLock guard(lock_);
    if (job == present_job) present_ended = true;
    scheduler_.again(job, at);
  }
  callbacks_.wake();  // whoever reads waits until then at most
}

bool Workers::may_take() {
  const MutexLock guard(lock_);
  return scheduler_.may_take(fs::monotonic_now());
}

bool Workers::is_running() {
  const MutexLock guard(lock_);
  return runners_ > 0;
}

// --- members ---

// Has one more thread look for work: a resting one, or a new one while there may be more.
void Workers::call_member() {
  const MutexLock guard(lock_);
  if (resting_ > calls_) {
    ++calls_;
    called_.notify_one();
  } else if (workers_ <= size_ + 1 + away_ && !stopping_) {  // so many may run, and one more reads
    ++workers_;
    spawn(&Workers::member);
  }
}

void Workers::member() {
  while (!stopping_) {
    JobPtr job;
    if (role_.try_take()) {
      job = hold_role();
      if (job == nullptr) rest(true);
    } else {
      job = take();
    }
    if (job != nullptr) {
      run(std::move(job));
    } else if (role_.is_held()) {
      rest(false);
    }
  }
}

// Reads until there is something to run, or a caller wants to read its answers itself.
JobPtr Workers::hold_role() {
  JobPtr job;
  while (!stopping_) {
    ++turns_;
    step(!may_take());
    job = take();
    if (job != nullptr) break;
    if (caller_waits_ && callers_may_read()) break;
  }
  role_.give_up();
  return job;
}

void Workers::step(bool wait) noexcept {
  reads_for = this;
  try {
    callbacks_.step(wait);
  } catch (...) {
    pause(50ms);  // counted where it happened; whatever failed is looked at again
  }
  reads_for = nullptr;
}

bool Workers::flush(bool may_wait) noexcept {
  try {
    return callbacks_.flush(may_wait);
  } catch (...) {
    return true;  // counted where it happened
  }
}

bool Workers::callers_may_read() { return !serves_ && callbacks_.calls() == 0; }

// Sleeps until called; not if there is something to do. `yielding`: leaves the free role to callers.
void Workers::rest(bool yielding) {
  UniqueLock guard(lock_);
  if (stopping_ || scheduler_.may_take(fs::monotonic_now())) return;
  if (yielding) {
    if (!caller_waits_ || !callers_may_read()) return;
    caller_waits_ = false;
    relief_sleeps_ = false;  // somebody should notice if the role stays free
    relief_called_.notify_all();
  } else if (!role_.is_held()) {
    return;
  }
  ++resting_;
  called_.wait(guard, [&]() SPEED_REQUIRES(lock_) { return calls_ > 0 || stopping_; });
  --resting_;
  if (calls_ > 0) --calls_;
}

// Between taking a request and its beginning nothing else is taken: requests start in order (S-5), however the threads
// are scheduled.
JobPtr Workers::next(UniqueLock& guard, TimePoint now) {
  turn_.wait(guard, [&]() SPEED_REQUIRES(lock_) { return !is_turn_taken_ || stopping_; });
  if (stopping_) return nullptr;
  JobPtr job = std::static_pointer_cast<Job>(scheduler_.take(now));
  if (job != nullptr && job->kind == core::Kind::request) is_turn_taken_ = holds_turn = true;
  return job;
}

void Workers::begun() {
  if (!std::exchange(holds_turn, false)) return;
  const MutexLock guard(lock_);
  is_turn_taken_ = false;
  turn_.notify_all();
}

// Something to run for a thread that runs nothing yet.
JobPtr Workers::take() {
  UniqueLock guard(lock_);
  JobPtr job = next(guard, fs::monotonic_now());
  if (job != nullptr) ++runners_;
  return job;
}

// The next thing for a thread that runs. Without one, and if that is to be its end, it runs no more.
JobPtr Workers::take_next(TimePoint now, bool ends) {
  UniqueLock guard(lock_);
  JobPtr job = next(guard, now);
  if (job == nullptr && ends) {
    --runners_;
    settled_.notify_all();
  }
  return job;
}

// Runs what there is, until nothing is; answers leave in between when they are many or old.
void Workers::run(JobPtr job) {
  runs_for = this;
  watch();
  TimePoint looked = fs::monotonic_now();
  TimePoint flushed = looked;
  while (job != nullptr) {
    execute(job);
    const TimePoint now = fs::monotonic_now();
    if (!stopping_ && (now - flushed > flush_period || callbacks_.answers() >= flush_answers)) {
      flush(true);
      flushed = now;
    }
    if (!stopping_ && now - looked > tick) {
      look_in();
      looked = now;
    }
    job = take_next(now, false);
    if (job != nullptr) continue;
    if (!stopping_) flush(true);
    job = take_next(now, true);
  }
  runs_for = nullptr;
}

void Workers::execute(const JobPtr& job) {
  present_job = job;
  present_ended = false;
  job->run();
  present_job = nullptr;
  begun();
  ++ended_;
  if (present_ended) return;
  const MutexLock guard(lock_);
  scheduler_.done(job);
}

// Reads what came meanwhile, without waiting, if nobody else does.
void Workers::look_in() {
  if (!role_.try_take()) return;
  ++turns_;
  step(false);
  role_.give_up();
}

// --- places ---

Workers::Present Workers::present() {
  return {runs_for, present_job, present_thread == std::thread::id() ? std::this_thread::get_id() : present_thread};
}

Workers::PresentScope::PresentScope(const Present& other) : before_{runs_for, present_job, present_thread} {
  runs_for = other.workers;
  present_job = other.job;
  present_thread = other.thread;
}

Workers::PresentScope::~PresentScope() {
  runs_for = before_.workers;
  present_job = std::move(before_.job);
  present_thread = before_.thread;
}

Workers::PlaceRelease::PlaceRelease() {
  if (runs_for == nullptr || present_job == nullptr || !runs_for->give_place(present_job)) return;
  workers_ = runs_for;
  job_ = present_job;
}

Workers::PlaceRelease::~PlaceRelease() {
  if (workers_ != nullptr) workers_->take_place(job_);
}

bool Workers::give_place(const JobPtr& job) {
  bool more = false;
  {
    const MutexLock guard(lock_);
    if (!scheduler_.blocked(job)) return false;
    ++away_;
    more = scheduler_.may_take(fs::monotonic_now());
  }
  if (more) call_member();
  return true;
}

void Workers::take_place(const JobPtr& job) {
  const MutexLock guard(lock_);
  --away_;
  scheduler_.resumed(job);
}

// --- callers ---

void Workers::read_until(const std::atomic<bool>& done) {
  const bool worker = on_worker();
  if (!worker && serves_) return;
  if (!role_.try_take()) {
    if (!worker) caller_waits_ = true;
    return;
  }
  bool reads = true;
  while (reads && !done && !stopping_) {
    ++turns_;
    step(true);
    if (may_take()) call_member();
    if (!done && is_interruptible()) reads = goes_on_reading();
  }
  if (reads) role_.give_up();
  if (may_take() || callbacks_.calls() > 0) {
    call_member();
  } else {
    watch();
  }
}

// Asks without the role: a signal handler may call, or end the node. False if it is over, or another thread reads.
bool Workers::goes_on_reading() {
  role_.give_up();
  if (is_interrupted()) return false;
  if (role_.try_take()) return true;
  if (!on_worker()) caller_waits_ = true;
  return false;
}

void Workers::ensure_reader() {
  if (!on_worker() && !role_.is_held()) call_member();
}

// --- relief ---

// Has the relief look on: the role is free for now, and somebody should notice if it stays so.
void Workers::watch() {
  if (!relief_sleeps_) return;
  const MutexLock guard(lock_);
  relief_sleeps_ = false;
  relief_called_.notify_all();
}

void Workers::relieve() {
  int idle = 0;
  while (!stopping_) {
    if (idle >= idle_ticks) {
      relief_sleeps_ = true;
      if (!needs_relief()) {
        UniqueLock guard(lock_);
        relief_called_.wait(guard, [&] { return !relief_sleeps_ || stopping_; });
      }
      relief_sleeps_ = false;
      idle = 0;
    }
    const std::uint64_t ended = ended_;
    const std::uint64_t turns = turns_;
    const bool unsent = callbacks_.answers() > 0;
    pause(tick);
    idle = needs_relief() ? 0 : idle + 1;
    // While it waits nobody might read: a worker waits for room, if need be one with nothing else to do.
    if (unsent && ended_ == ended && !flush(false) && !is_running()) submit([] {});
    if (is_running()) at_each_tick_();
    const bool is_unread = !role_.is_held() && turns_ == turns;
    if (ended_ - ended < slow_jobs && (is_unread || may_take())) call_member();
  }
}

bool Workers::needs_relief() { return !role_.is_held() || is_running(); }

// --- the end ---

bool Workers::drain(Duration timeout) {
  const PlaceRelease released;  // what this is called from is not waited for, and others may end meanwhile
  const std::size_t own = on_worker() ? 1 : 0;
  const auto is_settled = [&]() SPEED_REQUIRES(lock_) { return runners_ <= own && scheduler_.is_settled(own); };
  const TimePoint until = fs::monotonic_now() + timeout;
  Duration left = timeout;
  UniqueLock guard(lock_);
  do {
    const Duration slice = is_interruptible() ? std::min(left, interruption_period) : left;
    if (settled_.wait_for(guard, slice, is_settled)) return true;
    guard.unlock();
    if (is_interrupted()) return false;
    guard.lock();
    left = until - fs::monotonic_now();
  } while (left > Duration::zero());
  return false;
}

void Workers::stop(Duration timeout) {
  {
    const MutexLock guard(lock_);
    stopping_ = true;
    scheduler_.close();
    called_.notify_all();
    turn_.notify_all();
    relief_called_.notify_all();
  }
  callbacks_.wake();
  role_.wait_until_free(timeout);
  std::vector<Member> members;
  {
    const MutexLock guard(lock_);
    members.swap(members_);
  }
  const TimePoint deadline = fs::monotonic_now() + job_timeout;
  for (Member& member : members) {
    const bool is_self = member.thread.get_id() == present().thread;
    while (!is_self && !*member.ended && fs::monotonic_now() < deadline) pause(tick);
    if (*member.ended) {
      member.thread.join();
    } else {
      member.thread.detach();  // a service holds it up; it holds what it needs
    }
  }
  at_end_();
}

}  // namespace speed::engine
