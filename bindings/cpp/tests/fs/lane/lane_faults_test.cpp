// What a failing filesystem or a hostile neighbour does to a lane costs nothing else (L-2, L-5, L-6, L-10, L-14, L-17).
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <atomic>

#include "few_files.hpp"
#include "fs/lane/lane_state.hpp"
#include "one_lane.hpp"
#include "speed/error.hpp"
#include "vectors.hpp"

namespace {

std::atomic<speed::test::Call> failing = speed::test::Call::none;
std::atomic<int> failure = 0;

bool fails(speed::test::Call call) {
  if (failing != call) return false;
  errno = failure;
  return true;
}

}  // namespace

extern "C" {  // with the names that the C library gives their parameters

ssize_t write(int fd, const void* buf, size_t n) {
  return fails(speed::test::Call::write) ? -1 : syscall(SYS_write, fd, buf, n);
}

ssize_t pwrite(int fd, const void* buf, size_t n, off_t offset) {
  return fails(speed::test::Call::pwrite) ? -1 : syscall(SYS_pwrite64, fd, buf, n, offset);
}
}

namespace speed {

void test::fail(Call call, int error) {
  failure = error;
  failing = call;
}

namespace {

using test::Call;
using test::counted;
using test::Got;
using test::OneLane;
using test::put;
using test::read_all;
using test::Sender;
using test::texts;
using Texts = std::vector<std::string>;

class LaneFaults : public testing::Test {
 protected:
  void TearDown() override { test::fail(Call::none, 0); }

  // What a send is told while a call fails.
  template <class Send>
  static std::string refusal(Call call, int error, Send send) {
    test::fail(call, error);
    std::string told;
    try {
      send();
    } catch (const StorageError& refused) {
      told = refused.what();
    }
    test::fail(Call::none, 0);
    return told;
  }

  static bool says(const std::string& told, const char* what) { return told.find(what) != std::string::npos; }

  OneLane lane_;
};

TEST_F(LaneFaults, a_write_that_fails_is_a_named_error_and_the_next_file_begins_l_5) {
  Sender sender(lane_);
  sender.send("one");
  const std::vector<std::pair<int, const char*>> told{
      {ENOSPC, "is full"}, {EDQUOT, "quota"}, {EFBIG, "ulimit -f"}, {EMFILE, "ulimit -n"}, {EIO, "speed root doctor"}};
  for (const auto& [error, what] : told) {
    EXPECT_TRUE(says(refusal(Call::write, error, [&] { sender.send("lost"); }), what)) << what;
  }
  sender.send("two");
  EXPECT_TRUE(lane_.has(2));
  EXPECT_EQ(texts(read_all(*lane_.reader())), (Texts{"one", "two"}));
}

TEST_F(LaneFaults, a_lane_file_that_is_there_is_passed_l_2) {
  Sender sender(lane_);
  EXPECT_TRUE(sender.writer.has_room(1));
  put(lane_.file(1), "");
  sender.send("one");
  EXPECT_GT(std::filesystem::file_size(lane_.file(2)), 0U);
}

TEST_F(LaneFaults, a_lane_that_is_gone_is_made_again_at_once_by_its_sender_l_2) {
  Sender sender(lane_);
  EXPECT_TRUE(sender.writer.has_room(1));
  std::filesystem::remove(lane_.place());
  sender.send("one");
  EXPECT_EQ(texts(read_all(*lane_.reader())), Texts{"one"});
}

TEST_F(LaneFaults, a_reader_says_that_its_lane_was_removed_and_the_next_one_goes_on_l_2) {
  Sender sender(lane_);
  sender.send("one");
  const auto reader = lane_.reader();
  EXPECT_EQ(texts(read_all(*reader)), Texts{"one"});
  std::filesystem::remove_all(lane_.place());
  sender.send("two");
  EXPECT_THROW(read_all(*reader), std::system_error);
  EXPECT_EQ(texts(read_all(*lane_.reader())), Texts{"two"});
}

TEST_F(LaneFaults, without_an_inbox_nothing_is_made_l_5) {
  fs::LaneWriter writer(lane_.root.path, "analytics", "nobody", 1, lane_.lane_keys(), {});
  EXPECT_THROW(writer.has_room(1), StorageError);
  EXPECT_FALSE(std::filesystem::exists(lane_.root.path + "/nobody"));
}

TEST_F(LaneFaults, a_lane_directory_of_another_user_is_not_written_to_l_10) {
  if (geteuid() != 0) return;  // only root can make the directory of somebody else
  std::filesystem::create_directory(lane_.place());
  ASSERT_EQ(chown(lane_.place().c_str(), 12345, 12345), 0);
  Sender sender(lane_);
  EXPECT_TRUE(says(refusal(Call::none, 0, [&] { sender.send("one"); }), "belongs to another user"));
}

TEST_F(LaneFaults, in_the_directory_of_another_user_no_lane_is_fenced_l_18) {
  if (geteuid() != 0) return;  // only root can make the directory of somebody else
  constexpr uid_t user = 12345;
  Sender(lane_).send("by right");
  for (const auto& one : std::filesystem::recursive_directory_iterator(lane_.root.path)) {
    ASSERT_EQ(lchown(one.path().c_str(), user, user), 0);
  }
  ASSERT_EQ(chown(lane_.root.path.c_str(), user, user), 0);
  ASSERT_EQ(mkdir((lane_.root.path + "/other").c_str(), 0700), 0);
  setfsuid(user);
  EXPECT_NO_THROW(fs::fence_lanes(lane_.root.path, "analytics", 2, lane_.ring));
  setfsuid(0);
  EXPECT_TRUE(std::filesystem::exists(wire::child_path(lane_.place(), wire::fence_name(2))));
}

TEST_F(LaneFaults, a_batch_that_cannot_be_renamed_leaves_nothing_l_23) {
  std::filesystem::create_directories(lane_.file(1));  // what no file replaces
  Sender sender(lane_, 1, {.publish_whole = true});
  EXPECT_TRUE(says(refusal(Call::none, 0, [&] { sender.send("lost"); }), "speed root doctor"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(lane_.place()), {}), 1);
}

TEST_F(LaneFaults, the_window_counts_what_lies_there_until_it_is_committed_l_6) {
  Sender sender(lane_, 1, {.window_bytes = 150, .segment_bytes = 100});
  EXPECT_TRUE(sender.writer.has_room(1'000'000));
  sender.send("one");
  sender.send("two");
  std::filesystem::create_directory(lane_.file(9));
  EXPECT_FALSE(sender.writer.has_room(1));
  const auto reader = lane_.reader();
  for (const Got& one : read_all(*reader)) reader->finish(one.sequence, false);
  put(wire::child_path(lane_.place(), wire::cursor_name(2)), "no cursor");
  std::filesystem::create_directory(wire::child_path(lane_.place(), wire::cursor_name(3)));
  EXPECT_TRUE(sender.writer.has_room(10));
}

TEST_F(LaneFaults, a_lane_with_as_many_files_as_may_be_has_no_room_l_6) {
  const auto most = test::spec_file("limits.json")["max_lane_segments"].get<std::uint32_t>();
  std::filesystem::create_directory(lane_.place());
  for (std::uint32_t number = 1; number < most; ++number) put(lane_.file(number), "x");
  Sender sender(lane_, 2, {.publish_whole = true});
  EXPECT_TRUE(sender.writer.has_room(1));
  sender.send("one");
  EXPECT_FALSE(sender.writer.has_room(1));
  const wire::Cursor cursor{1, {1, 2, 0}, 0, {}, false};
  const Bytes committed = wire::encode_cursor(cursor, lane_.lane_keys().front());
  put(wire::child_path(lane_.place(), wire::cursor_name(1)), std::string(wire::text(committed)));
  EXPECT_TRUE(sender.writer.has_room(1));
}

// Only a successor has the reader pass the torn rest.
TEST_F(LaneFaults, who_finds_no_room_behind_a_torn_rest_begins_the_next_file_l_5_l_6) {
  Sender died(lane_);
  died.send("one");
  const std::string torn(wire::text(ByteView(died.sealed(std::string(1000, 'x'))).first(300)));
  put(lane_.file(1), test::content(lane_.file(1)) + torn);
  const auto reader = lane_.reader();
  for (const Got& one : read_all(*reader)) reader->finish(one.sequence, false);
  Sender sender(lane_, 2, {.window_bytes = 350});
  EXPECT_FALSE(sender.writer.has_room(200));
  read_all(*reader);
  EXPECT_TRUE(sender.writer.has_room(200));
  sender.send("two");
  EXPECT_EQ(texts(read_all(*reader)), Texts{"two"});
  EXPECT_EQ(counted(*reader, "torn_tails"), 1U);
}

TEST_F(LaneFaults, room_that_cannot_be_asked_for_is_a_named_error_l_5) {
  Sender sender(lane_, 1, {.window_bytes = 150});
  sender.send("one");
  const test::FewFiles none;
  EXPECT_TRUE(says(refusal(Call::none, 0, [&] { sender.writer.has_room(100); }), "ulimit -n"));
}

TEST_F(LaneFaults, a_cursor_that_cannot_be_written_is_written_by_the_next_scan_l_14) {
  Sender sender(lane_);
  sender.send("one");
  auto reader = lane_.reader();
  const std::vector<Got> received = read_all(*reader);
  test::fail(Call::pwrite, ENOSPC);
  reader->finish(received[0].sequence, false);
  test::fail(Call::none, 0);
  EXPECT_EQ(counted(*reader, "commits_failed"), 1U);
  read_all(*reader);
  reader.reset();
  EXPECT_EQ(texts(read_all(*lane_.reader(2))), Texts{});
}

// Space is what is missing, and removing a lane file frees some.
TEST_F(LaneFaults, without_space_for_a_cursor_passed_files_are_removed_all_the_same_l_17) {
  Sender sender(lane_, 1, {.segment_bytes = 100});
  sender.send("one");
  sender.send("two");
  const auto reader = lane_.reader();
  const std::vector<Got> received = read_all(*reader);
  test::fail(Call::pwrite, ENOSPC);
  reader->finish(received[0].sequence, false);
  EXPECT_TRUE(lane_.has(1));
  reader->finish(received[1].sequence, false);
  EXPECT_FALSE(lane_.has(1));
}

TEST_F(LaneFaults, a_lane_without_space_for_its_first_cursor_is_read_all_the_same_l_15) {
  Sender(lane_).send("one");
  lane_.reader()->close_cleanly();
  test::fail(Call::write, ENOSPC);
  const auto reader = lane_.reader(2);
  test::fail(Call::none, 0);
  EXPECT_EQ(counted(*reader, "commits_failed"), 1U);
  EXPECT_TRUE(std::filesystem::exists(wire::child_path(lane_.place(), wire::cursor_name(1))));
  EXPECT_EQ(texts(read_all(*reader)), Texts{"one"});
}

TEST_F(LaneFaults, what_was_read_without_space_for_a_first_cursor_is_marked_when_it_comes_again_l_15) {
  Sender(lane_).send("one");
  lane_.reader()->close_cleanly();
  test::fail(Call::write, ENOSPC);
  EXPECT_EQ(texts(read_all(*lane_.reader(2))), Texts{"one"});
  test::fail(Call::none, 0);
  const std::vector<Got> again = read_all(*lane_.reader(3));
  ASSERT_EQ(texts(again), Texts{"one"});
  EXPECT_TRUE(again[0].redelivered);
}

TEST_F(LaneFaults, a_link_in_the_place_of_a_cursor_is_not_written_through_l_10_l_15) {
  Sender(lane_).send("one");
  lane_.reader()->close_cleanly();
  const std::string other = lane_.root.path + "/other";
  std::filesystem::create_hard_link(wire::child_path(lane_.place(), wire::cursor_name(1)), other);
  const std::string before = test::content(other);
  test::fail(Call::write, ENOSPC);
  EXPECT_EQ(texts(read_all(*lane_.reader(2))), Texts{"one"});
  test::fail(Call::none, 0);
  EXPECT_EQ(test::content(other), before);
}

TEST_F(LaneFaults, finished_lazily_an_envelope_is_committed_after_a_mebibyte_l_14) {
  Sender sender(lane_);
  sender.send(std::string(1 << 20, 'x'));
  sender.send("two");
  auto died = lane_.reader();
  for (const Got& one : read_all(*died)) died->finish(one.sequence, true);
  died.reset();
  EXPECT_EQ(texts(read_all(*lane_.reader(2))), Texts{"two"});
}

TEST_F(LaneFaults, links_pipes_giants_and_foreign_files_are_put_aside_unread_l_10) {
  Sender(lane_).send("one");
  std::filesystem::create_symlink("/etc/passwd", lane_.file(2));
  ASSERT_EQ(mkfifo(lane_.file(3).c_str(), 0600), 0);
  put(lane_.file(4), "");
  std::filesystem::resize_file(lane_.file(4), std::uintmax_t{1} << 40);
  put(wire::child_path(lane_.place(), "notes.txt"), "foreign");
  const auto reader = lane_.reader();
  Texts all;
  for (int scan = 0; scan < 5; ++scan) {
    for (const Got& one : read_all(*reader)) all.push_back(one.text);
  }
  EXPECT_EQ(all, Texts{"one"});
  EXPECT_EQ(counted(*reader, "segments_refused"), 3U);
  EXPECT_EQ(counted(*reader, "foreign_files"), 1U);
  EXPECT_TRUE(std::filesystem::exists("/etc/passwd"));
}

TEST_F(LaneFaults, a_lane_file_that_is_taken_away_is_passed_l_10) {
  Sender sender(lane_);
  sender.send("one");
  const auto reader = lane_.reader();
  std::filesystem::remove(lane_.file(1));
  EXPECT_EQ(texts(read_all(*reader, false)), Texts{});
  EXPECT_EQ(texts(read_all(*reader, false)), Texts{});
  sender.writer.close();
  sender.send("two");
  EXPECT_EQ(texts(read_all(*reader)), Texts{"two"});
}

}  // namespace
}  // namespace speed
