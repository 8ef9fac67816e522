// Group commit (L-7): what threads append while a flush runs is in the next one, once for all of them.
#include "engine/link/group_flush.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <new>
#include <thread>
#include <vector>

using speed::engine::GroupFlush;

namespace {

// A device whose flush lasts until the test lets it end.
class SlowDevice {
 public:
  std::uint64_t flush() {
    const std::uint64_t covered = appended;
    ++flushes;
    begun_.set_value();
    may_end_.get_future().wait();
    return covered;
  }

  void await_begin() { begun_.get_future().wait(); }
  void end() { may_end_.set_value(); }

  std::atomic<std::uint64_t> appended = 0;
  std::atomic<int> flushes = 0;

 private:
  std::promise<void> begun_;
  std::promise<void> may_end_;
};

}  // namespace

TEST(GroupFlush, what_was_covered_already_is_not_flushed_again_l_7) {
  GroupFlush flushes;
  int done = 0;
  for (const std::uint64_t counter : {7U, 3U, 7U}) {
    flushes.wait(counter, [&] {
      ++done;
      return 7U;
    });
  }
  EXPECT_EQ(done, 1);
}

TEST(GroupFlush, a_flush_that_throws_keeps_nobody_waiting_l_7) {
  GroupFlush flushes;
  EXPECT_THROW(flushes.wait(1, []() -> std::uint64_t { throw std::bad_alloc(); }), std::bad_alloc);
  int done = 0;
  flushes.wait(1, [&] {
    ++done;
    return 1U;
  });
  EXPECT_EQ(done, 1);
}

TEST(GroupFlush, threads_that_append_while_a_flush_runs_share_the_next_one_l_7) {
  GroupFlush flushes;
  SlowDevice device;
  std::atomic<int> later = 0;
  device.appended = 1;
  std::jthread first([&] { flushes.wait(1, [&] { return device.flush(); }); });
  device.await_begin();
  device.appended = 9;
  {
    std::vector<std::jthread> others;
    for (std::uint64_t counter = 2; counter <= 9; ++counter) {
      others.emplace_back([&, counter] {
        flushes.wait(counter, [&]() -> std::uint64_t {
          ++later;
          return device.appended;
        });
      });
    }
    device.end();
  }
  EXPECT_EQ(device.flushes, 1);
  EXPECT_EQ(later, 1);
}
