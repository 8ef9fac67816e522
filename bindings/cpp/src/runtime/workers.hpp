// The threads of a node that read and run: one holds the reader's role, others run tasks.
//
// Whoever holds the role and reads requests gives the role up and runs them itself, one after the other: no hand-over
// between threads where one would do. The relief looks about every millisecond, only while there is something to look
// at: a runner held up in one task is relieved of reading by another thread, and of the tasks behind it. So a running
// service never blocks reading (registry_spec/decisions/0007).
// Threads: all methods may be called from any thread, unless said otherwise.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/reader_role.hpp"

namespace speed::runtime {

using Task = std::function<void()>;

class Workers {
 public:
  // What the pool needs of the node around it.
  struct Duties {
    std::function<void(bool wait)> step;         // one turn of reading, by the holder of the role
    std::function<bool(bool may_wait)> flush;    // sends the answers that wait; false: some found no room and still do
    std::function<std::size_t()> answers;        // how many wait
    std::function<std::size_t()> calls;          // unanswered calls of this node
    std::function<void()> wake;                  // ends the wait of who reads
  };

  // `size` tasks at once at most, on `size` + 1 threads, started one by one when needed: one can always read.
  explicit Workers(std::size_t size) : size_(size) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  // Begins to read. Threads hold `owner`, so that one that a service holds up beyond the end harms nothing.
  void start(Duties duties, const std::shared_ptr<void>& owner);

  void queue(Task task);    // runs after the present turn; only for the holder of the role
  void submit(Task task);   // runs on a worker
  void follow(Task task);   // runs after the present turn of a thread that reads, on a worker for any other thread
  void queue_in_order(Task task);  // likewise; the next such task starts only once this one called `entered`
  void entered();          // the task begins what its place in the order is about
  bool on_worker() const;   // whether this thread runs a task: what it finishes can wait for the flush after it

  // Others may need this node at any time; if not, a waiting caller may hold the role between times.
  void serve() { serves_ = true; }

  // Lets a waiting caller read by itself until it is `done`, if nobody else reads and nobody would miss it.
  // Returns early if another thread reads; then that one completes the caller.
  void lead(const std::atomic<bool>& done, const std::function<bool()>& interrupted = {});

  void ensure_reader();  // somebody reads, since an answer is awaited that no thread waits for

  // Has the relief do this as well, at each tick while tasks run; only before `start`. It must not wait.
  void at_each_tick(std::function<void()> look) { at_each_tick_ = std::move(look); }

  bool drain(double timeout_seconds);       // waits until no task is queued or running
  void stop(double timeout_seconds);        // lets every thread end after its present turn or task

 private:
  struct Queued {
    Task run;
    bool in_order = false;
  };
  struct Member {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> ended;
  };

  void spawn(void (Workers::*body)());
  void call_member();
  void member();
  void hold_role();
  void step(bool wait) noexcept;
  bool flush(bool may_wait) noexcept;
  bool callers_may_read();
  void rest(bool yielding);
  bool begin();
  void run();
  bool take(Queued& task);
  void put(Queued task);
  bool end_run();
  void look_in();
  void watch();
  void relieve();
  bool needs_relief();
  bool has_tasks();
  bool has_runnable();
  bool is_running();

  const std::size_t size_;
  Duties duties_;
  std::function<void()> at_each_tick_ = [] {};
  std::weak_ptr<void> owner_;
  ReaderRole role_;
  std::mutex lock_;  // guards what follows, down to the atomics
  std::condition_variable called_;
  std::condition_variable settled_;
  std::condition_variable relief_called_;
  std::deque<Queued> tasks_;
  std::condition_variable gate_opened_;
  bool gate_closed_ = false;  // a task in order was taken and has not entered yet
  std::vector<Member> members_;
  std::size_t workers_ = 0;
  std::size_t resting_ = 0;
  std::size_t calls_ = 0;  // of resting members, not yet heard
  std::size_t running_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> serves_ = false;
  std::atomic<bool> caller_waits_ = false;
  std::atomic<bool> relief_sleeps_ = false;
  std::atomic<std::uint64_t> ended_ = 0;  // tasks
  std::atomic<std::uint64_t> turns_ = 0;  // of reading
};

}  // namespace speed::runtime
