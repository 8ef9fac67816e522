// When polling rests, and for how long (registry_spec/decisions/0008, 0033).
#include "engine/threads/polling.hpp"

#include <gtest/gtest.h>

namespace speed::engine {
namespace {

TEST(Polling, a_core_taken_away_once_costs_little_and_a_crowd_is_left_alone) {
  Polling polling(0.0001);
  double now = 1000;
  const auto rest = [&] {
    EXPECT_TRUE(polling.is_crowded(0.01, now));
    double rested = 0;
    for (; !polling.pays(now + rested); rested += 0.0001) {
    }
    return rested;
  };
  double last = 0;
  for (int taken = 0; taken < 12; ++taken) {
    const double rested = rest();
    EXPECT_GE(rested, last);
    now += last = rested;
  }
  EXPECT_GT(last, 0.04);
  for (int hits = 0; hits < 100; ++hits) polling.hit();
  EXPECT_LT(rest(), 0.001);
  rest();
  now += 1;
  EXPECT_LT(rest(), 0.001);
}

}  // namespace
}  // namespace speed::engine
