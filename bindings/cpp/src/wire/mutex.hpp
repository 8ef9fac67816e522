// Locks that Clang checks: which field and which function needs which is said where it is declared, and -Wthread-safety
// refuses code that goes without. Nothing else compilers see of it: each is the lock of the standard library.
// In the lowest layer, since every one has locks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#ifdef __clang__
#define SPEED_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define SPEED_THREAD_SAFETY(attribute)
#endif

// Of a field: it is read and written under that lock only.
#define SPEED_GUARDED_BY(lock) SPEED_THREAD_SAFETY(guarded_by(lock))
// Of a lock: it is taken under those, or before them, where both are held.
#define SPEED_ACQUIRED_AFTER(...) SPEED_THREAD_SAFETY(acquired_after(__VA_ARGS__))
#define SPEED_ACQUIRED_BEFORE(...) SPEED_THREAD_SAFETY(acquired_before(__VA_ARGS__))
// Of a function or lambda: who calls it holds the lock, or does not hold it.
#define SPEED_REQUIRES(...) SPEED_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define SPEED_EXCLUDES(...) SPEED_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
// Of a function that takes a lock or lets go of it.
#define SPEED_ACQUIRE(...) SPEED_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define SPEED_TRY_ACQUIRE(...) SPEED_THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
#define SPEED_RELEASE(...) SPEED_THREAD_SAFETY(release_capability(__VA_ARGS__))
// Of a function that is right for a reason which cannot be said here; a comment gives it.
#define SPEED_NO_THREAD_SAFETY_ANALYSIS SPEED_THREAD_SAFETY(no_thread_safety_analysis)

namespace speed {

class SPEED_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  ~Mutex() = default;

  void lock() SPEED_ACQUIRE() { mutex_.lock(); }
  void unlock() SPEED_RELEASE() { mutex_.unlock(); }
  bool try_lock() SPEED_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

  // Says that this thread holds it, in a lambda that runs under the lock of the function that made it.
  void assume_held() const SPEED_THREAD_SAFETY(assert_capability(this)) {}

 private:
  friend class UniqueLock;
  std::mutex mutex_;
};

// Holds a lock to the end of its scope.
class SPEED_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SPEED_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  // Of one that was taken by `try_lock`.
  MutexLock(Mutex& mutex, std::adopt_lock_t) SPEED_REQUIRES(mutex) : mutex_(mutex) {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() SPEED_RELEASE() { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

// The same, for who lets go of it in between or waits for a Condition.
class SPEED_THREAD_SAFETY(scoped_lockable) UniqueLock {
 public:
  explicit UniqueLock(Mutex& mutex) SPEED_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  UniqueLock(const UniqueLock&) = delete;
  UniqueLock& operator=(const UniqueLock&) = delete;
  ~UniqueLock() SPEED_RELEASE() {}  // NOLINT(modernize-use-equals-default): it lets go

  void lock() SPEED_ACQUIRE() { lock_.lock(); }
  void unlock() SPEED_RELEASE() { lock_.unlock(); }
  bool owns_lock() const { return lock_.owns_lock(); }

 private:
  friend class Condition;
  friend class Unlocked;
  std::unique_lock<std::mutex> lock_;
};

// Lets go of a lock that the caller holds, to the end of its scope, however that is left.
class SPEED_THREAD_SAFETY(scoped_lockable) Unlocked {
 public:
  Unlocked(UniqueLock& held, [[maybe_unused]] Mutex& mutex) SPEED_RELEASE(mutex) : lock_(held.lock_) { lock_.unlock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() SPEED_RELEASE() { lock_.lock(); }

 private:
  std::unique_lock<std::mutex>& lock_;
};

// What one waits for under a lock. A lambda that is waited for and reads what the lock guards says SPEED_REQUIRES.
class Condition {
 public:
  template <class Done>
  void wait(UniqueLock& lock, Done done) {
    condition_.wait(lock.lock_, std::move(done));
  }
  template <class Period, class Done>
  bool wait_for(UniqueLock& lock, const Period& period, Done done) {
    return condition_.wait_for(lock.lock_, period, std::move(done));
  }
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace speed
