// When polling rests, and for how long (registry_spec/decisions/0008, 0033).
#include "engine/threads/polling.hpp"

#include <gtest/gtest.h>

namespace speed::engine {
namespace {

TEST(Polling, a_core_taken_away_once_costs_little_and_a_crowd_is_left_alone) {
  Polling polling(100us);
  TimePoint now(1000s);
  const auto rest = [&] {
    EXPECT_TRUE(polling.is_crowded(10ms, now));
    Duration rested{};
    for (; !polling.pays(now + rested); rested += 100us) {
    }
    return rested;
  };
  Duration last{};
  for (int taken = 0; taken < 12; ++taken) {
    const Duration rested = rest();
    EXPECT_GE(rested, last);
    now += last = rested;
  }
  EXPECT_GT(last, 40ms);
  for (int hits = 0; hits < 100; ++hits) polling.hit();
  EXPECT_LT(rest(), 1ms);
  rest();
  now += 1s;
  EXPECT_LT(rest(), 1ms);
}

}  // namespace
}  // namespace speed::engine
