// Nodes whose names do not come back, and what is left of them: nothing (R-25 to R-27, L-15, L-27).
#include <gtest/gtest.h>

#include "engine/runtime.hpp"
#include "one_lane.hpp"

namespace speed {
namespace {

using test::AgentProcess;
using test::echo;
using test::eventually;
using test::TestRoot;

class EphemeralTest : public testing::Test {
 protected:
  NodeOptions passing(std::vector<std::string> allow = {}) const {
    NodeOptions options = root_.options(std::move(allow));
    options.ephemeral = true;
    return options;
  }

  // Files and directories of the root that bear the name of a job.
  std::size_t left() const {
    std::size_t found = 0;
    std::error_code gone;  // some go while they are listed
    const std::filesystem::recursive_directory_iterator end;
    for (std::filesystem::recursive_directory_iterator at(root_.path, gone); at != end; at.increment(gone)) {
      found += at->path().filename().string().starts_with("job.") ? 1 : 0;
    }
    return found;
  }

  TestRoot root_;
};

TEST_F(EphemeralTest, nothing_is_left_of_short_lived_senders_that_all_were_answered_r_27_l_27) {
  Node hub("hub", root_.options({"job.*"}));
  hub.serve("echo", echo);
  for (int n = 0; n < 60; ++n) {
    Node job("job." + std::to_string(n), passing());
    EXPECT_EQ(job.call("hub", "echo", {{"data", n}}), Value(n));
  }
  EXPECT_TRUE(eventually([&] { return left() == 0; })) << left();
  EXPECT_TRUE(
      eventually([&] { return hub.stats().find("lanes")->as<std::int64_t>() == 0; }));  // as the next scan lists them
}

TEST_F(EphemeralTest, one_that_sent_nothing_is_forgotten_when_it_closes_r_25) {
  Node job("job.1", passing());
  job.close();
  EXPECT_EQ(left(), 0U);
}

TEST_F(EphemeralTest, what_is_left_of_a_killed_process_is_swept_by_a_node_that_starts_later_r_27) {
  {
    AgentProcess job(root_, "job.1", {"--ephemeral", "true"});
    job.kill(SIGKILL);
  }
  EXPECT_GT(left(), 0U);
  // What was written of late waits for a later round.
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(wire::entry_path(root_.path, "job.1"), now - std::chrono::hours(1));
  const Node hub("hub", root_.options());
  EXPECT_TRUE(eventually([&] { return left() == 0; })) << left();
}

TEST_F(EphemeralTest, it_says_so_in_listings_and_lives_as_others_r_25) {
  Node hub("hub", root_.options({"job.*"}));
  Node job("job.1", passing({"hub"}));
  EXPECT_TRUE(hub.wait_for("job.1").ephemeral);
  EXPECT_FALSE(job.wait_for("hub").ephemeral);
}

// A message that was handled, recorded, and put into a new lane after everything of its sender was forgotten.
TEST_F(EphemeralTest, what_a_forgotten_name_once_wrote_is_not_dispatched_again_l_15) {
  std::atomic<int> handled = 0;
  std::string recorded;
  Node hub("hub", root_.options({"job.*"}));
  hub.on_message([&](const Message&) { ++handled; });
  const std::string lane = wire::lane_dir(root_.path, "hub", "job.1");
  const std::string segment = lane + "/" + wire::lane_file_name({1, 1});
  {
    Node job("job.1", passing());
    job.send("hub", "once", {.ack = true});
    recorded = test::content(segment);
  }
  ASSERT_FALSE(recorded.empty());
  ASSERT_TRUE(eventually([&] { return left() == 0; })) << left();
  std::filesystem::create_directory(lane);
  test::put(segment, recorded);
  Node job("job.1", passing());  // the name comes back all the same
  EXPECT_EQ(job.generation(), 2U);
  job.send("hub", "again", {.ack = true});
  EXPECT_EQ(handled, 2) << "the two that were sent";
}

}  // namespace
}  // namespace speed
