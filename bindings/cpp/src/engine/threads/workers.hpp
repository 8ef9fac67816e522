// The role of the thread that reads the lanes: held by one thread at a time, and handed on.
// Threads: all methods may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/scheduler.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

inline constexpr Duration interruption_period = 50ms;  // after which a wait looks whether it is interrupted

class ReaderRole {
 public:
  bool try_take() {
    const MutexLock guard(lock_);
    return !std::exchange(held_, true);
  }
  void give_up() {
    const MutexLock guard(lock_);
    held_ = false;
    free_.notify_all();
  }
  bool is_held() const {
    const MutexLock guard(lock_);
    return held_;
  }
  void wait_until_free(Duration timeout) const {
    UniqueLock guard(lock_);
    free_.wait_for(guard, timeout, [&]() SPEED_REQUIRES(lock_) { return !held_; });
  }

 private:
  mutable Mutex lock_;
  mutable Condition free_;
  bool held_ SPEED_GUARDED_BY(lock_) = false;
};

// The threads of a node that read and run: one holds the reader's role, others run what the Scheduler gives them.
//
// Whoever holds the role and reads something to run gives the role up and runs it itself: no hand-over between threads
// where one would do. The relief looks about every millisecond, only while there is something to look at: a runner held
// up is relieved of reading by another thread, and of what waits behind it. So a running service never blocks reading
// (registry_spec/decisions/0007). Who waits for another node gives up its place among the running (T-3).
// Threads: all methods may be called from any thread, unless said otherwise.

using Task = std::function<void()>;

// Work as a worker runs it. What it does not end itself, by `settle` or `again`, ends when it returns.
struct Job : core::Work {
  using Work::Work;
  virtual void run() = 0;  // must not throw
};

using JobPtr = std::shared_ptr<Job>;

class Workers {
 public:
  // What the pool needs of the node around it.
  struct Callbacks {
    std::function<void(bool wait)> step;  // one turn of reading, by the holder of the role
    std::function<bool(bool may_wait)> flush;  // sends the answers that wait; false: some found no room and still do
    std::function<std::size_t()> answers;  // how many wait
    std::function<std::size_t()> calls;  // unanswered calls of this node
    std::function<void()> wake;  // ends the wait of who reads
  };

  explicit Workers(std::size_t size) : size_(size), scheduler_(size) {}
  std::size_t size() const { return size_; }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  // Begins to read. Threads hold `owner`, so that one that a service holds up beyond the end harms nothing.
  void start(Callbacks callbacks, const std::shared_ptr<void>& owner);

  // Does something with the Scheduler, under the lock that covers it.
  template <class Do>
  auto scheduling(Do what) {
    const MutexLock guard(lock_);
    return what(scheduler_);
  }
  void notice();  // there may be something to run: has a thread look, unless this one does anyway

  void submit(Task task);  // runs on a worker
  void follow(Task task) { submit(std::move(task)); }
  void begun();  // the request that this thread took: others may begin theirs (S-5)
  bool settle(const JobPtr& job);  // it ended; false if it was told as overdue, so that it is answered
  void again(const JobPtr& job, TimePoint at);  // it is run once more then

  std::weak_ptr<void> owner() const { return owner_; }  // of all parts of the node
  bool on_worker() const;  // whether this thread runs something: what it finishes can wait for the flush after it

  // Others may need this node at any time; if not, a waiting caller may hold the role between times.
  void serve() { serves_ = true; }

  // Lets a waiting caller read by itself until it is `done`, if nobody else reads and nobody would miss it.
  // Returns early if another thread reads; then that one completes the caller.
  void read_until(const std::atomic<bool>& done);

  void ensure_reader();  // somebody reads, since an answer is awaited that no thread waits for

  // Has the relief do this as well, at each tick while something runs; only before `start`. It must not wait.
  void at_each_tick(std::function<void()> look) { at_each_tick_ = std::move(look); }
  void at_end(std::function<void()> last) { at_end_ = std::move(last); }  // by `stop`; likewise

  // Waits until nothing waits or runs but what this is called from; false if the time was over, or it was interrupted.
  bool drain(Duration timeout);
  void stop(Duration timeout);  // lets every thread end after its present turn or job

  // What a thread runs, and for whom; both null for one that runs nothing.
  struct Present {
    Workers* workers = nullptr;
    JobPtr job;
    std::thread::id thread;
  };
  static Present present();

  // While it lives, this thread counts as the one that runs something, which waits for it: what it awaits may close the
  // node like a handler itself.
  class PresentScope {
   public:
    explicit PresentScope(const Present& other);
    PresentScope(const PresentScope&) = delete;
    PresentScope& operator=(const PresentScope&) = delete;
    ~PresentScope();

   private:
    Present before_;
  };

  bool give_place(const JobPtr& job);  // it waits for another node; false if too many do
  void take_place(const JobPtr& job);  // it goes on

  // While it lives, the work that this thread runs, of whatever node, holds no place (T-3).
  class PlaceRelease {
   public:
    PlaceRelease();
    PlaceRelease(const PlaceRelease&) = delete;
    PlaceRelease& operator=(const PlaceRelease&) = delete;
    ~PlaceRelease();

   private:
    Workers* workers_ = nullptr;
    JobPtr job_;
  };

 private:
  struct Member {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> ended;
  };

  void spawn(void (Workers::*body)()) SPEED_REQUIRES(lock_);
  void call_member() SPEED_EXCLUDES(lock_);
  void member();
  JobPtr hold_role();
  void step(bool wait) noexcept;
  bool flush(bool may_wait) noexcept;
  bool callers_may_read();
  void rest(bool yielding) SPEED_EXCLUDES(lock_);
  JobPtr next(UniqueLock& guard, TimePoint now) SPEED_REQUIRES(lock_);
  JobPtr take() SPEED_EXCLUDES(lock_);
  JobPtr take_next(TimePoint now, bool ends) SPEED_EXCLUDES(lock_);
  void run(JobPtr job);
  void execute(const JobPtr& job) SPEED_EXCLUDES(lock_);
  void look_in();
  void watch() SPEED_EXCLUDES(lock_);
  bool goes_on_reading();
  void relieve() SPEED_EXCLUDES(lock_);
  bool needs_relief();
  bool may_take() SPEED_EXCLUDES(lock_);
  bool is_running() SPEED_EXCLUDES(lock_);

  const std::size_t size_;
  Callbacks callbacks_;
  std::function<void()> at_each_tick_ = [] {};
  std::function<void()> at_end_ = [] {};
  std::weak_ptr<void> owner_;
  ReaderRole role_;
  Mutex lock_;
  Condition called_;
  Condition settled_;
  Condition turn_;
  Condition relief_called_;
  core::Scheduler scheduler_ SPEED_GUARDED_BY(lock_);
  std::vector<Member> members_ SPEED_GUARDED_BY(lock_);
  bool is_turn_taken_ SPEED_GUARDED_BY(lock_) = false;  // a request was taken and has not begun yet
  std::size_t workers_ SPEED_GUARDED_BY(lock_) = 0;
  std::size_t resting_ SPEED_GUARDED_BY(lock_) = 0;
  std::size_t calls_ SPEED_GUARDED_BY(lock_) = 0;  // of resting members, not yet heard
  std::size_t runners_ SPEED_GUARDED_BY(lock_) = 0;  // threads that run things
  std::size_t away_ SPEED_GUARDED_BY(lock_) = 0;  // of those, the ones that wait for another node
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> serves_ = false;
  std::atomic<bool> caller_waits_ = false;
  std::atomic<bool> relief_sleeps_ = false;
  std::atomic<std::uint64_t> ended_ = 0;  // jobs
  std::atomic<std::uint64_t> turns_ = 0;  // of reading
};

}  // namespace speed::engine
