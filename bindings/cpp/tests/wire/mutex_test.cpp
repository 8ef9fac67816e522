#include "wire/mutex.hpp"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <thread>

namespace speed {
namespace {

// Whether nobody holds it, asked by another thread, since a lock must not be asked for by who has it.
bool is_free(Mutex& mutex) {
  return std::async(std::launch::async,
                    [&] {
                      if (!mutex.try_lock()) return false;
                      mutex.unlock();
                      return true;
                    })
      .get();
}

TEST(Mutex, IsHeldToTheEndOfTheScope) {
  Mutex mutex;
  {
    const MutexLock lock(mutex);
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(Mutex, ThatWasTakenByTryLockIsLetGoOf) {
  Mutex mutex;
  if (mutex.try_lock()) {
    const MutexLock lock(mutex, std::adopt_lock);
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(Unlocked, HasTheLockAgainThoughSomethingWasThrown) {
  Mutex mutex;
  UniqueLock lock(mutex);
  bool was_free = false;
  const auto leave = [&]() SPEED_REQUIRES(mutex) {
    const Unlocked unlocked(lock, mutex);
    was_free = is_free(mutex);
    throw std::runtime_error("interrupted");
  };
  EXPECT_THROW(leave(), std::runtime_error);
  EXPECT_TRUE(was_free);
  EXPECT_FALSE(is_free(mutex));
}

TEST(Condition, ThatIsWaitedForInVainSaysSo) {
  Mutex mutex;
  Condition condition;
  UniqueLock lock(mutex);
  EXPECT_FALSE(condition.wait_for(lock, std::chrono::milliseconds(1), [] { return false; }));
  EXPECT_TRUE(lock.owns_lock());
}

TEST(Condition, WakesWhoWaits) {
  Mutex mutex;
  Condition condition;
  bool done = false;
  std::thread other([&] {
    const MutexLock lock(mutex);
    done = true;
    condition.notify_all();
  });
  {
    UniqueLock lock(mutex);
    condition.wait(lock, [&] { return done; });
    EXPECT_TRUE(done);
  }
  other.join();
}

}  // namespace
}  // namespace speed
