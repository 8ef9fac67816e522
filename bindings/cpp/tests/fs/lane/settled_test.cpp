// What a caller reads of a server that is gone: the vectors, with real files (S-21).
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fs/lane/lane_state.hpp"
#include "one_lane.hpp"
#include "speed/error.hpp"
#include "vectors.hpp"

namespace speed::fs {
namespace {

using test::Json;

std::string name_of(Verdict verdict) {
  if (verdict == Verdict::not_begun) return "not begun";
  return verdict == Verdict::repeatable ? "repeatable" : "may have run";
}

TEST(Settled, a_caller_reads_whether_its_call_had_begun_s_21) {
  const Json all = test::vectors("settled");
  const wire::Keyring ring(test::keys_of(all.at("accepted_keys")));
  const wire::LaneKeys keys = ring.lane_keys(wire::node_id(all.at("source").get<std::string>()),
                                             wire::node_id(all.at("target").get<std::string>()));
  for (const Json& item : all.at("cases")) {
    const test::TestRoot root;
    for (const auto& [name, hex] : item.at("files").items()) {
      test::put(wire::child_path(root.path, name), std::string(wire::text(test::bytes_of(hex))));
    }
    std::vector<std::uint64_t> sequences;
    for (const Json& sequence : item.at("request")) sequences.push_back(test::number_of(sequence));
    const auto generation = item.at("generation").get<std::uint32_t>();
    const Decision decision = deciding(root.path, generation, item.at("process") != "unknown", keys);
    EXPECT_EQ(name_of(judge({generation, sequences, sequences.size()}, decision)), item.at("verdict"))
        << test::what(item);
  }
}

TEST(Settled, a_request_with_parity_may_have_run_once_enough_of_its_segments_are_finished_s_21) {
  const std::vector<std::uint64_t> sequences{1, 2, 3, 4};
  const WrittenRequest request{1, sequences, 3};
  Decision decision{Decision::Kind::cursor};
  decision.cursor.last_sequence = 3;
  EXPECT_EQ(judge(request, decision), Verdict::may_have_run);
  decision.cursor.unfinished = {{3, {}, true}};
  EXPECT_EQ(judge(request, decision), Verdict::repeatable);
  decision.cursor.unfinished = {{3, {}, false}};
  EXPECT_EQ(judge(request, decision), Verdict::not_begun);
  decision.cursor.unfinished.clear();
  decision.cursor.last_sequence = 2;
  EXPECT_EQ(judge(request, decision), Verdict::not_begun);
}

TEST(Settled, a_lane_that_was_swept_tells_nothing_s_21) {
  const test::OneLane lane;
  EXPECT_EQ(deciding(lane.place() + "/gone", 1, true, lane.lane_keys()).kind, Decision::Kind::unknown);
}

// --- what its receivers leave there ---

class SealedLane : public testing::Test {
 protected:
  wire::Cursor cursor(const std::string& name) const {
    return wire::decode_cursor(wire::view(test::content(wire::child_path(lane_.place(), name))), lane_.lane_keys());
  }
  // Whether the request with that counter had begun before generation 2.
  Verdict verdict(std::uint64_t counter, bool is_over = false) const {
    const std::uint64_t sequence = wire::make_sequence(1, counter);
    return judge({1, std::span(&sequence, 1), 1}, deciding(lane_.place(), 1, is_over, lane_.lane_keys()));
  }

  test::OneLane lane_;
};

TEST_F(SealedLane, a_paused_receiver_begins_nothing_once_a_successor_has_read_the_lane_l_31) {
  test::Sender sender(lane_);
  for (int n = 0; n < 3; ++n) sender.send("ask", wire::EnvelopeType::spc_request);
  const auto paused = lane_.reader(1);
  const auto all = test::read_all(*paused);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(paused->begin(all[0].sequence, false), LaneReader::Begun::written);
  const auto successor = lane_.reader(2);
  EXPECT_EQ(paused->begin(all[1].sequence, false), LaneReader::Begun::replaced);
  paused->rest();
  EXPECT_EQ(paused->begin(all[2].sequence, true), LaneReader::Begun::replaced);
  EXPECT_TRUE(cursor("cursor.000002").sealed);
  EXPECT_EQ(verdict(1), Verdict::may_have_run);
  EXPECT_EQ(verdict(2), Verdict::not_begun);
}

TEST_F(SealedLane, a_receiver_that_was_replaced_while_it_stood_still_does_not_open_the_lane_l_31) {
  test::Sender sender(lane_);
  sender.send("ask", wire::EnvelopeType::spc_request);
  lane_.reader(1);
  const std::string own = wire::child_path(lane_.place(), "cursor.000001");
  ASSERT_EQ(chmod(own.c_str(), 0400), 0);
  EXPECT_THROW(lane_.reader(1), LeaseLostError);
}

TEST_F(SealedLane, its_first_cursor_is_kept_for_callers_before_their_requests_are_finished_l_31) {
  test::Sender sender(lane_);
  for (int n = 0; n < 2; ++n) sender.send("ask", wire::EnvelopeType::spc_request);
  {
    const auto first = lane_.reader(1);
    const auto all = test::read_all(*first);
    EXPECT_EQ(first->begin(all[0].sequence, true), LaneReader::Begun::written);
  }
  const auto successor = lane_.reader(2);
  const auto again = test::read_all(*successor);
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(verdict(1), Verdict::repeatable);
  EXPECT_TRUE(successor->keep_start());
  for (const test::Got& one : again) successor->finish(one.sequence, false);
  EXPECT_EQ(verdict(1), Verdict::repeatable);
  EXPECT_EQ(verdict(2), Verdict::not_begun);
  lane_.reader(3);
  EXPECT_EQ(verdict(2), Verdict::not_begun);
}

TEST_F(SealedLane, few_starts_are_kept_l_31) {
  test::Sender sender(lane_);
  sender.send("ask", wire::EnvelopeType::spc_request);
  for (std::uint32_t generation = 1; generation <= 7; ++generation) EXPECT_TRUE(lane_.reader(generation)->keep_start());
  EXPECT_FALSE(std::filesystem::exists(wire::child_path(lane_.place(), "start.000003")));
  for (const char* const kept : {"start.000004", "start.000005", "start.000006", "start.000007"}) {
    EXPECT_TRUE(std::filesystem::exists(wire::child_path(lane_.place(), kept))) << kept;
  }
}

}  // namespace
}  // namespace speed::fs
