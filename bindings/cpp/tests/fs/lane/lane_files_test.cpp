// When a lane directory has changed since it was listed (L-18); files that change while they are opened (L-10).
#include "fs/lane/lane_files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "fabric.hpp"
#include "fs/clock.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {
namespace {

using FileClock = std::filesystem::file_time_type::clock;

class LaneFilesTest : public testing::Test {
 protected:
  LaneFilesTest() {
    std::filesystem::create_directories(path_);
    std::filesystem::create_directories(wire::quarantine_dir(root_.path, "billing"));
    quarantine_.emplace(root_.path, "billing");
    files_.emplace(path_, ring_.lane_keys({}, {}), *quarantine_);
  }

  void touch(const std::string& name) const { std::ofstream{path_ + "/" + name}; }

  test::TestRoot root_;
  const std::string path_ = wire::lane_dir(root_.path, "billing", "analytics");
  const wire::Keyring ring_{{wire::Key{}}};
  std::optional<Quarantine> quarantine_;
  std::optional<LaneFiles> files_;
};

// Many times: between two ticks of the clock that stamps files a directory changes without another time.
TEST_F(LaneFilesTest, a_file_that_comes_or_goes_at_once_behind_a_listing_is_noticed) {
  for (int round = 0; round < 1000; ++round) {
    files_->list();
    touch("one");
    ASSERT_TRUE(files_->changed());
    files_->list();
    std::filesystem::remove(path_ + "/one");
    ASSERT_TRUE(files_->changed());
  }
}

// By the clock that stamps files, which may lag behind the exact one.
TEST_F(LaneFilesTest, until_the_clock_passed_its_time_a_directory_is_listed_again) {
  const std::int64_t stamp = file_clock_ns() + 15'000'000;
  const timespec time{.tv_sec = stamp / 1'000'000'000, .tv_nsec = stamp % 1'000'000'000};
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), std::array{time, time}.data(), 0), 0);
  files_->list();
  EXPECT_TRUE(files_->changed() || file_clock_ns() > stamp);
}

// The clock was set back.
TEST_F(LaneFilesTest, a_time_far_ahead_is_no_reason_to_list_for_ever) {
  std::filesystem::last_write_time(path_, FileClock::now() + std::chrono::hours(1));
  files_->list();
  EXPECT_FALSE(files_->changed());
}

TEST_F(LaneFilesTest, a_directory_at_rest_is_soon_listed_no_more) {
  using Clock = std::chrono::steady_clock;
  touch("one");
  const Clock::time_point give_up = Clock::now() + std::chrono::seconds(20);
  while (files_->changed()) {
    files_->list();
    ASSERT_LT(Clock::now(), give_up);
  }
  EXPECT_FALSE(files_->changed());
}

TEST_F(LaneFilesTest, a_file_that_is_replaced_while_it_is_opened_is_opened_again) {
  const Fd directory = open_directory(path_);
  touch("one");
  std::jthread replacing([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      touch("two");
      std::filesystem::rename(path_ + "/two", path_ + "/one");
    }
  });
  for (int round = 0; round < 20'000; ++round) {
    ASSERT_NO_THROW(open_regular(directory.get(), "one", owners_of(directory.get()))) << "round " << round;
  }
}

}  // namespace
}  // namespace speed::fs
