// The wake-up FIFO of a node (L-9).
#include "fs/bell.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fabric.hpp"

namespace speed::fs {
namespace {

TEST(Bells, a_full_pipe_has_all_lanes_looked_at_however_small_it_is_l_9) {
  const test::TestRoot root;
  const std::string path = root.path + "/bell";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const Fd held(open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ASSERT_GT(fcntl(held.get(), F_SETPIPE_SZ, 4096), 0);
  Bell bell(path);
  Ringer ringer(path);
  RingResult result = RingResult::rung;
  while (result == RingResult::rung) result = ringer.ring(wire::node_id("analytics"));
  EXPECT_EQ(result, RingResult::full);
  EXPECT_TRUE(bell.drain().everything);
  EXPECT_EQ(ringer.ring(wire::node_id("analytics")), RingResult::rung);
  const Rings one = bell.drain();
  EXPECT_FALSE(one.everything);
  EXPECT_EQ(one.sources, std::vector{wire::node_id("analytics")});
}

}  // namespace
}  // namespace speed::fs
