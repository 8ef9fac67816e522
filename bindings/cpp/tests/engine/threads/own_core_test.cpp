// A thread that polls looks for a core of its own (registry_spec/decisions/0033).
#include "engine/threads/polling.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace speed::engine {
namespace {

cpu_set_t affinity() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof mask, &mask);
  return mask;
}

TEST(OwnCore, a_thread_leaves_its_core_and_may_use_as_many_as_before) {
  std::thread([] {
    const cpu_set_t before = affinity();
    EXPECT_EQ(leave_this_core(), CPU_COUNT(&before) > 1);
    const cpu_set_t after = affinity();
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }).join();
}

TEST(OwnCore, a_thread_bound_to_one_core_stays) {
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_FALSE(leave_this_core());
  }).join();
}

// Polls that bring something, by turns with another or not, at times of a clock of its own.
struct Turns {
  TimePoint now{1000s};
  OwnCore core;

  int poll(int times, bool by_turns) {
    int moves = 0;
    for (int at = 0; at < times; ++at) {
      core.looked(by_turns ? 8us : 1us);
      moves += core.hit(now) ? 1 : 0;
    }
    return moves;
  }
};

TEST(OwnCore, only_turns_in_a_row_lead_to_a_move) {
  Turns turns;
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(turns.poll(OwnCore::patience - 1, true), 0);
    EXPECT_EQ(turns.poll(1, false), 0);
  }
  EXPECT_EQ(turns.poll(OwnCore::patience, true), 1);
}

TEST(OwnCore, between_two_moves_is_a_rest) {
  Turns turns;
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(turns.poll(OwnCore::patience, true), 1);
    turns.now += OwnCore::shortest_rest * 9 / 10;
    EXPECT_EQ(turns.poll(OwnCore::patience, true), 0);
    turns.now += OwnCore::shortest_rest / 5;
  }
}

TEST(OwnCore, two_that_left_at_once_do_not_meet_for_ever) {
  Turns one, other{.core = OwnCore(1)};
  int moves_together = 0;
  for (int round = 0; round < 100; ++round) {
    moves_together += one.poll(OwnCore::patience, true) + other.poll(OwnCore::patience, true) == 2 ? 1 : 0;
    other.now = one.now += OwnCore::shortest_rest / 10;
  }
  EXPECT_EQ(moves_together, 1);
}

}  // namespace
}  // namespace speed::engine
