// Who runs what next in a node: one table of states and events, without threads and without a clock (T-n).
//
// The rules and the table stand in registry_spec/scheduling.md; Python and Java have the same class under the same name,
// and all three replay vectors/scheduling.json. A node of N workers runs at most N services at once, at most N handlers
// and tasks, and one more in all: neither kind can take every worker from the other.
// Threads: not thread-safe; the lock of the runtime's Workers covers every method.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "wire/time.hpp"

namespace speed::core {

enum class Kind { request, message, task };

// Where one piece of work stands (T-2).
enum class State { unclaimed, waiting, running, blocked, in_hand, back_off, ended };

enum class Life { open, leaving, closed };

// What became of a request that arrived.
enum class Admission { waiting, duplicate, leaving };

// One request, message or task. Whoever brings it derives what it needs, and fills in what is above the line.
struct Work {
  explicit Work(Kind of) : kind(of) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;

  const Kind kind;
  std::string sender = {};
  std::string key = {};  // of a request: its id
  std::string order = {};  // of a message: what keeps it in order; its sender, if empty
  int priority = 5;
  bool is_event = false;
  TimePoint deadline = {};  // of a request
  // --- the Scheduler's ---
  std::uint64_t number = 0;  // in the order of arrival
  State state = State::waiting;
  bool is_overdue = false;  // it was told as such while it ran
};

using WorkPtr = std::shared_ptr<Work>;

// What a look at the time found: requests over their deadline, and events that nothing took.
struct Overdue {
  std::vector<WorkPtr> waiting;
  std::vector<WorkPtr> running;
  std::vector<WorkPtr> unclaimed;
};

// What waits and what runs, as STATS tells it; messages are those that nobody handles yet.
struct Load {
  std::size_t queued_requests = 0;
  std::size_t running_requests = 0;
  std::size_t queued_messages = 0;
};

class Scheduler {
 public:
  explicit Scheduler(std::size_t workers) : workers_(workers) {}

  // --- arrivals ---

  Admission request(const WorkPtr& work);  // its sender's grant and its head were checked
  // A message or event; false once the node leaves: it stays in its lane, for the next start. `claimed`: something in
  // the program takes it; else it waits until something does.
  bool message(const WorkPtr& work, TimePoint now, bool claimed);
  void task(const WorkPtr& work);

  // --- workers ---

  WorkPtr take(TimePoint now);  // what a free worker does next; null if there is nothing, or no place for it
  void done(const WorkPtr& work);
  void again(const WorkPtr& work,
             TimePoint at);  // handling failed: once more then; what comes after it in its order waits
  bool blocked(const WorkPtr& work);  // its worker waits: others get its place. False if too many wait already
  void resumed(const WorkPtr& work);

  // --- what nothing takes yet ---

  // The program said what it takes: what waited for that is handled before what came later. Returns how many.
  std::size_t claim(const std::function<bool(const Work&)>& takes);
  WorkPtr receive();  // the next message for the program to fetch, or null
  void put_back(const WorkPtr& work);  // the program did not take it after all

  // --- withdrawal, departure, time ---

  // Null if it is unknown. One that waited is ended and never begins; one that runs stays as it is.
  WorkPtr withdraw(const std::string& sender, const std::string& key);
  // Those of its requests, the waiting ones ended.
  std::vector<WorkPtr> forget(const std::string& sender, const std::function<bool(const Work&)>& which);
  Overdue expire(TimePoint now);
  std::optional<TimePoint> next_time();  // when time alone next changes something

  // --- the end ---

  void leave();  // no further request is accepted; what was accepted is worked off
  // Whether nothing waits for a worker, and nothing but so much is at work.
  bool is_settled(std::size_t but = 0) const;
  std::vector<WorkPtr> close();  // nothing is taken any more; the requests that still waited, ended
  Life life() const { return life_; }

  bool may_take(TimePoint now) const;  // whether `take` gives something
  WorkPtr find(const std::string& sender, const std::string& key) const;  // a request that waits or runs, or null
  std::size_t running() const { return running_[0] + running_[1]; }
  std::set<std::string> senders() const;  // of requests
  Load load() const;

 private:
  using Queue = std::map<std::uint64_t, WorkPtr>;  // in the order of arrival
  struct Turn {
    std::string sender;
    Queue waiting;
  };
  using Ring = std::list<Turn>;
  struct Timed {
    TimePoint at;
    WorkPtr work;
  };

  std::size_t& running_of(Kind kind) { return running_[kind == Kind::request ? 0 : 1]; }
  std::size_t running_of(Kind kind) const { return running_[kind == Kind::request ? 0 : 1]; }
  bool has(Kind kind) const;
  WorkPtr next_of(Kind kind);
  WorkPtr next_request();
  WorkPtr next_message();
  void free_place(const Work& work);
  void enqueue(const WorkPtr& work);
  void make_ready(const std::string& order);
  void unready(const std::string& order);
  void let_follow(const std::string& order);
  void end_back_off(TimePoint now);
  void merge(const std::vector<WorkPtr>& claimed);
  void remove_unclaimed(const WorkPtr& work);
  void drop_request(const WorkPtr& work);
  void forget_accepted(const Work& work);
  void note_deadline(const WorkPtr& work, TimePoint deadline);

  const std::size_t workers_;
  Life life_ = Life::open;
  std::uint64_t numbers_ = 0;
  std::array<std::size_t, 2> running_{};  // requests; messages and tasks
  std::size_t blocked_ = 0;
  std::array<Kind, 3> rotation_{Kind::request, Kind::message, Kind::task};
  Ring ring_;  // senders with waiting requests; the first is served next
  std::unordered_map<std::string, Ring::iterator> turns_;
  std::unordered_map<std::string, std::unordered_map<std::string, WorkPtr>> accepted_;  // by sender and id
  std::deque<WorkPtr> tasks_;
  std::unordered_map<std::string, std::deque<WorkPtr>> queues_;  // waiting messages by order
  std::unordered_set<std::string> busy_;  // orders of which a message is being handled, or waits to be tried again
  // Orders whose first message may run, by its priority and since when.
  std::map<int, std::map<std::uint64_t, std::string>> ready_;
  std::unordered_map<std::string, std::pair<int, std::uint64_t>> ready_at_;
  std::uint64_t handled_ = 0;
  std::map<std::string, std::deque<WorkPtr>> unclaimed_;  // by sender
  std::vector<Timed> deadlines_;  // heaps, as the next
  std::vector<Timed> back_off_;
  std::size_t clear_at_ = 64;
};

}  // namespace speed::core
