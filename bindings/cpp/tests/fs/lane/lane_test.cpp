// The lane analytics -> billing, with real files: L-2 to L-23.
#include <gtest/gtest.h>

#include "fs/lane/lane_state.hpp"
#include "one_lane.hpp"
#include "speed/error.hpp"

namespace speed {
namespace {

using test::content;
using test::counted;
using test::Got;
using test::OneLane;
using test::put;
using test::read_all;
using test::Sender;
using test::texts;
using Texts = std::vector<std::string>;

TEST(LaneOfFiles, envelopes_arrive_in_order_and_whole) {
  OneLane lane;
  Sender sender(lane);
  Texts sent;
  for (int n = 0; n < 300; ++n) sent.push_back("message " + std::to_string(n));
  sent.emplace_back(300'000, 'x');
  for (const std::string& text : sent) sender.send(text);
  EXPECT_EQ(texts(read_all(*lane.reader())), sent);
}

TEST(LaneOfFiles, each_batch_of_a_sender_without_bells_is_a_whole_file_l_23) {
  OneLane lane;
  for (const bool durable : {false, true}) {
    Sender sender(lane, durable ? 2 : 1, {.publish_whole = true, .durable = durable});
    sender.send("one");
    sender.send("two");
  }
  EXPECT_TRUE(lane.has(2));
  EXPECT_EQ(texts(read_all(*lane.reader())), (Texts{"one", "two", "one", "two"}));
}

TEST(LaneOfFiles, a_full_file_is_followed_by_the_next_and_removed_once_read_l_17) {
  OneLane lane;
  Sender sender(lane, 1, {.segment_bytes = 200});
  for (const char* text : {"one", "two", "three"}) sender.send(text);
  const auto reader = lane.reader();
  for (const Got& one : read_all(*reader)) reader->finish(one.sequence, false);
  EXPECT_FALSE(lane.has(1));
  EXPECT_EQ(reader->unfinished(), 0U);
}

// A listing that was long, or cut at its bound, may lack what lies there.
TEST(LaneOfFiles, no_file_is_passed_over_because_a_listing_lacks_it_l_17) {
  OneLane lane;
  Sender sender(lane, 1, {.segment_bytes = 100});
  for (const char* text : {"one", "two", "three", "four"}) sender.send(text);
  auto died = lane.reader();
  std::vector<fs::Received> received;
  died->read(received, 1, TimePoint(1s), false);
  died->finish(received.at(0).header.sequence, false);
  died->read(received, 1, TimePoint(2s), false);  // from the second file: the cursor is at its beginning
  died.reset();
  const auto aside = [&](std::uint32_t number) { return lane.root.path + "/aside-" + std::to_string(number); };
  for (const std::uint32_t number : {2U, 3U}) std::filesystem::rename(lane.file(number), aside(number));
  const auto successor = lane.reader(2);
  for (const std::uint32_t number : {2U, 3U}) std::filesystem::rename(aside(number), lane.file(number));
  const std::vector<Got> all = read_all(*successor, false);
  EXPECT_EQ(texts(all), (Texts{"two", "three", "four"}));
  for (const Got& one : all) successor->finish(one.sequence, false);
  EXPECT_FALSE(lane.has(2));
}

TEST(LaneOfFiles, damage_costs_only_itself_and_is_kept_and_counted_l_16_l_20) {
  OneLane lane;
  Sender sender(lane);
  sender.send("one");
  put(lane.file(1), content(lane.file(1)) + std::string(280, '?'));
  sender.send("two");
  const auto reader = lane.reader();
  EXPECT_EQ(texts(read_all(*reader)), (Texts{"one", "two"}));
  EXPECT_EQ(counted(*reader, "damaged_bad_version"), 1U);
  EXPECT_EQ(lane.quarantined(), 1U);
}

TEST(LaneOfFiles, of_a_large_envelope_with_a_bad_tag_the_bytes_of_the_lane_are_kept_l_20) {
  OneLane lane;
  Sender sender(lane);
  sender.send(std::string(200'000, 'a'));
  sender.send("second");
  std::string bytes = content(lane.file(1));
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  put(lane.file(1), bytes);
  const auto reader = lane.reader();
  EXPECT_EQ(texts(read_all(*reader)), Texts{"second"});
  const std::string kept = lane.first_kept();
  EXPECT_GE(kept.size(), 200'000U) << "all but what might begin the next header";
  EXPECT_TRUE(bytes.starts_with(kept));
}

TEST(LaneOfFiles, a_giant_is_read_in_turns_between_which_other_lanes_have_theirs_l_19) {
  OneLane lane;
  Sender sender(lane);
  sender.send(std::string(13 << 20, 'a'));
  sender.send("second");
  const auto reader = lane.reader();
  std::vector<fs::Received> received;
  int turns = 1;
  while (reader->read(received, 1, TimePoint(1000s), false) && received.empty()) ++turns;
  EXPECT_EQ(turns, 4) << "slices of 4 MiB";
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(wire::text(received[0].payload), std::string(13 << 20, 'a'));
  EXPECT_EQ(texts(read_all(*reader, false)), Texts{"second"});
}

TEST(LaneOfFiles, a_giant_outlives_the_next_reads_where_it_is_kept) {
  OneLane lane;
  Sender sender(lane);
  sender.send(std::string(5 << 20, 'a'));
  sender.send(std::string(100'000, 'b'));
  const auto reader = lane.reader();
  std::vector<fs::Received> received;
  while (reader->read(received, 1, TimePoint(1000s), true) && received.empty()) continue;
  ASSERT_EQ(received.size(), 1U);
  const wire::KeptBytes giant = fs::kept(received[0]);
  EXPECT_EQ(giant.bytes.data(), received[0].payload.data()) << "was copied";
  reader->read(received, 1, TimePoint(1001s), true);
  EXPECT_EQ(wire::text(received[0].payload), std::string(100'000, 'b'));
  EXPECT_EQ(wire::text(giant.bytes), std::string(5 << 20, 'a'));
}

TEST(LaneOfFiles, many_forged_envelopes_cost_bounded_work_l_16) {
  OneLane lane;
  Sender sender(lane);
  sender.send("one");
  std::string forged = content(lane.file(1));
  forged.back() = static_cast<char>(forged.back() ^ 1);
  std::string many;
  for (int n = 0; n < 1000; ++n) many += forged;
  put(lane.file(1), many);
  sender.send("two");
  const auto reader = lane.reader();
  EXPECT_EQ(texts(read_all(*reader)), (Texts{"two"}));
  EXPECT_GE(counted(*reader, "damaged_bad_tag"), 1U);
}

TEST(LaneOfFiles, copies_are_duplicates_and_gaps_are_counted_l_12) {
  OneLane lane;
  Sender sender(lane);
  sender.send("one");
  put(lane.file(1), content(lane.file(1)) + content(lane.file(1)));
  ++sender.counter;
  sender.send("three");
  const auto reader = lane.reader();
  EXPECT_EQ(texts(read_all(*reader)), (Texts{"one", "three"}));
  EXPECT_EQ(counted(*reader, "duplicates"), 1U);
  EXPECT_EQ(counted(*reader, "gaps"), 1U);
}

TEST(LaneOfFiles, an_older_generation_than_the_newest_known_is_rejected_l_13) {
  OneLane lane;
  Sender(lane, 2).send("heir");
  const auto reader = lane.reader();
  for (const Got& one : read_all(*reader)) reader->finish(one.sequence, false);
  std::filesystem::remove(lane.file(1, 2));
  Sender(lane, 1).send("old");
  reader->close_cleanly();
  const auto successor = lane.reader(2);
  EXPECT_EQ(texts(read_all(*successor)), Texts{});
}

TEST(LaneOfFiles, a_torn_tail_is_waited_for_and_dropped_once_its_file_ended_l_17) {
  OneLane lane;
  Sender sender(lane);
  sender.send("one");
  const std::string whole = content(lane.file(1));
  put(lane.file(1), whole + whole.substr(0, whole.size() - 5));
  const auto reader = lane.reader();
  EXPECT_EQ(texts(read_all(*reader)), Texts{"one"});
  sender.writer.close();
  sender.send("two");
  EXPECT_EQ(texts(read_all(*reader)), Texts{"two"});
  EXPECT_EQ(counted(*reader, "torn_tails"), 1U);
}

TEST(LaneOfFiles, a_lying_length_holds_up_the_lane_only_until_the_next_scan_l_16) {
  OneLane lane;
  Sender sender(lane);
  sender.send(std::string(200, 'x'));
  std::string liar = content(lane.file(1));
  liar[28] = 2;  // says 32 MiB
  put(lane.file(1), liar);
  sender.send("two");
  const auto reader = lane.reader();
  EXPECT_EQ(texts(read_all(*reader, false)), Texts{});
  EXPECT_FALSE(reader->grew());
  EXPECT_EQ(texts(read_all(*reader, false)), Texts{});
  EXPECT_EQ(texts(read_all(*reader, true)), Texts{"two"});
}

TEST(LaneOfFiles, whether_more_lies_there_is_known_without_reading) {
  OneLane lane;
  Sender sender(lane);
  sender.send("one");
  const auto reader = lane.reader();
  EXPECT_FALSE(reader->grew());
  read_all(*reader);
  EXPECT_FALSE(reader->grew());
  sender.send("two");
  EXPECT_TRUE(reader->grew());
}

// --- fences (L-18) ---

TEST(LaneOfFiles, what_stands_behind_a_fence_is_rejected_l_18) {
  OneLane lane;
  Sender old(lane);
  old.send("by right");
  std::filesystem::create_directory(lane.root.path + "/other");
  std::filesystem::create_directory(lane.root.path + "/no node!");
  fs::fence_lanes(lane.root.path, "analytics", 2, lane.ring);
  old.send("too late");
  Sender(lane, 2).send("heir");
  const auto reader = lane.reader();
  EXPECT_EQ(texts(read_all(*reader)), (Texts{"by right", "heir"}));
  EXPECT_EQ(counted(*reader, "rejected_behind_fence"), 1U);
}

TEST(LaneOfFiles, a_fence_stays_while_a_crash_can_lead_back_before_it_l_18) {
  OneLane lane;
  Sender old(lane);
  old.send("by right");
  fs::fence_lanes(lane.root.path, "analytics", 2, lane.ring);
  Sender(lane, 2).send("heir");
  auto died = lane.reader();
  EXPECT_EQ(texts(read_all(*died)), (Texts{"by right", "heir"}));
  read_all(*died);
  died.reset();
  old.send("too late");
  const auto successor = lane.reader(2);
  const std::vector<Got> received = read_all(*successor);
  EXPECT_EQ(texts(received), (Texts{"by right", "heir"}));
  for (const Got& one : received) successor->finish(one.sequence, false);
  read_all(*successor);
  EXPECT_FALSE(std::filesystem::exists(wire::child_path(lane.place(), wire::fence_name(2))));
}

TEST(LaneOfFiles, a_forged_fence_is_counted_and_ignored_l_18) {
  OneLane lane;
  Sender sender(lane);
  sender.send("one");
  put(wire::child_path(lane.place(), wire::fence_name(2)), std::string(60, '\0'));
  std::filesystem::create_directory(wire::child_path(lane.place(), wire::fence_name(3)));
  const auto reader = lane.reader();
  EXPECT_EQ(texts(read_all(*reader)), Texts{"one"});
  EXPECT_GE(counted(*reader, "fences_damaged"), 2U);
}

// --- a reader takes over from another (L-15) ---

TEST(LaneOfFiles, a_successor_redelivers_what_was_unfinished_l_15) {
  OneLane lane;
  Sender sender(lane);
  for (const char* text : {"one", "two", "three"}) sender.send(text);
  auto died = lane.reader();
  const std::vector<Got> received = read_all(*died);
  died->finish(received[0].sequence, false);
  died->finish(received[2].sequence, false);
  died.reset();
  sender.send("four");
  const auto successor = lane.reader(2);
  const std::vector<Got> again = read_all(*successor);
  EXPECT_EQ(texts(again), (Texts{"two", "four"}));
  EXPECT_TRUE(again[0].redelivered);
}

TEST(LaneOfFiles, a_large_envelope_is_redelivered_whole_l_15) {
  OneLane lane;
  Sender sender(lane);
  sender.send(std::string(700'000, 'x'), wire::EnvelopeType::spc_request);
  sender.send("two");
  auto died = lane.reader();
  died->finish(read_all(*died)[1].sequence, false);
  died.reset();
  const auto successor = lane.reader(2);
  const std::vector<Got> again = read_all(*successor);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].text.size(), 700'000U);
}

TEST(LaneOfFiles, what_was_unfinished_and_is_gone_is_counted_l_15) {
  OneLane lane;
  Sender sender(lane);
  for (const char* text : {"one", "two", "six", "ten"}) sender.send(text);
  auto died = lane.reader();
  died->finish(read_all(*died)[3].sequence, false);
  died.reset();
  std::string bytes = content(lane.file(1));
  const std::size_t size = bytes.size() / 4;
  bytes.replace(size, size, bytes.substr(0, size));                // one where two was
  bytes[2 * size + 90] = static_cast<char>(bytes[2 * size + 90] ^ 1);
  put(lane.file(1), bytes);
  auto successor = lane.reader(2);
  EXPECT_EQ(texts(read_all(*successor)), Texts{"one"});
  EXPECT_EQ(counted(*successor, "redeliveries_lost"), 2U);
  successor.reset();
  std::filesystem::remove(lane.file(1));
  const auto last = lane.reader(3);
  EXPECT_EQ(texts(read_all(*last)), Texts{});
  EXPECT_GE(counted(*last, "redeliveries_lost"), 1U);
}

TEST(LaneOfFiles, all_is_marked_behind_a_damaged_cursor_or_one_of_this_very_generation_l_15) {
  OneLane lane;
  Sender sender(lane);
  sender.send("one", wire::EnvelopeType::spc_request);
  sender.send("two");
  read_all(*lane.reader());
  for (const Got& one : read_all(*lane.reader())) EXPECT_TRUE(one.redelivered);
  put(wire::child_path(lane.place(), wire::cursor_name(1)), "no cursor");
  const auto successor = lane.reader(2);
  for (const Got& one : read_all(*successor)) EXPECT_TRUE(one.redelivered);
  EXPECT_EQ(counted(*successor, "cursors_damaged"), 1U);
}

TEST(LaneOfFiles, of_messages_only_the_first_can_have_been_handled_l_15) {
  OneLane lane;
  Sender sender(lane);
  sender.send("one");
  sender.send("two");
  read_all(*lane.reader());
  const auto successor = lane.reader(2);
  const std::vector<Got> again = read_all(*successor);
  EXPECT_TRUE(again[0].redelivered);
  EXPECT_FALSE(again[1].redelivered);
}

TEST(LaneOfFiles, segments_and_the_first_message_that_may_have_passed_them_are_marked_l_15_g_14) {
  OneLane lane;
  Sender sender(lane);
  for (const char* text : {"one", "two"}) sender.send(text, wire::EnvelopeType::message, wire::flag_segment);
  sender.send("passes");
  sender.send("waits");
  read_all(*lane.reader());
  const auto successor = lane.reader(2);
  const std::vector<Got> again = read_all(*successor);
  ASSERT_EQ(again.size(), 4U);
  for (const Got& one : again) EXPECT_EQ(one.redelivered, one.text != "waits") << one.text;
}

TEST(LaneOfFiles, a_lane_that_was_closed_cleanly_redelivers_nothing_l_15) {
  OneLane lane;
  Sender sender(lane);
  sender.send("one");
  const auto first = lane.reader();
  for (const Got& one : read_all(*first)) first->finish(one.sequence, true);
  first->close_cleanly();
  sender.send("two");
  const std::vector<Got> received = read_all(*lane.reader(2));
  EXPECT_EQ(texts(received), Texts{"two"});
  EXPECT_FALSE(received[0].redelivered);
}

TEST(LaneOfFiles, all_is_marked_behind_a_damaged_cursor_even_if_the_one_before_ended_cleanly_l_15) {
  OneLane lane;
  Sender sender(lane);
  sender.send("one");
  sender.send("two");
  lane.reader()->close_cleanly();
  put(wire::child_path(lane.place(), wire::cursor_name(2)), "no cursor");
  const std::vector<Got> again = read_all(*lane.reader(3));
  EXPECT_EQ(texts(again), (Texts{"one", "two"}));
  for (const Got& one : again) EXPECT_TRUE(one.redelivered) << one.text;
}

TEST(LaneOfFiles, a_replaced_receiver_stops_l_15) {
  OneLane lane;
  Sender(lane).send("one");
  lane.reader(2)->close_cleanly();
  EXPECT_THROW(lane.reader(1), LeaseLostError);
}

}  // namespace
}  // namespace speed
