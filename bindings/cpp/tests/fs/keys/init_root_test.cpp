// A root and its key are made by a program, as `speed root init` makes them, and nothing that is there is replaced.
#include "speed/root.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "one_lane.hpp"

namespace speed {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) return 0;
  return status.st_mode & 07777;
}

class InitRoot : public testing::Test {
 protected:
  std::string refusal(const std::string& key) {
    try {
      init_root(root_, key);
    } catch (const KeyFileError& refused) {
      return refused.what();
    }
    return "accepted";
  }

  test::TestRoot place_;
  const std::string root_ = place_.path + "/new/shop";
  const std::string key_ = root_ + "/speed.key";
};

TEST_F(InitRoot, makes_what_two_nodes_need_to_talk) {
  const std::string root = init_root(root_);
  Node adder("adder", {.root = root, .key = key_, .allow = {"asker"}});
  adder.serve("addOne", [](const Request& request) -> Response { return request.get<int>("x") + 1; });
  Node asker("asker", {.root = root, .key = key_});
  EXPECT_EQ(asker.call("adder", "addOne", {{"x", 41}}).as<int>(), 42);
}

TEST_F(InitRoot, all_of_it_is_for_this_user_alone_whatever_the_umask) {
  const mode_t before = umask(0);
  init_root(root_);
  umask(before);
  for (const std::string& made : {place_.path + "/new", root_, wire::registry_dir(root_), wire::claims_dir(root_)}) {
    EXPECT_EQ(mode_of(made), 0700) << made;
  }
  EXPECT_EQ(mode_of(key_), 0600);
  EXPECT_EQ(mode_of(key_ + ".new"), 0U) << "nothing is left beside it";
}

TEST_F(InitRoot, a_key_that_is_there_is_kept) {
  init_root(root_);
  const std::string before = test::content(key_);
  EXPECT_EQ(init_root(root_ + "/"), root_);
  EXPECT_EQ(test::content(key_), before);
}

TEST_F(InitRoot, two_roots_have_two_keys) {
  init_root(root_);
  init_root(root_ + "2");
  EXPECT_NE(test::content(key_), test::content(root_ + "2/speed.key"));
}

TEST_F(InitRoot, many_at_once_agree_on_one_key) {
  std::vector<std::string> seen(8);
  std::vector<std::thread> threads;
  for (std::string& key : seen) {
    threads.emplace_back([this, &key] {
      init_root(root_);
      key = test::content(key_);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 1U);
}

TEST_F(InitRoot, what_a_killed_process_left_beside_the_key_is_taken_away) {
  init_root(root_, place_.path + "/speed.key");
  test::put(key_ + ".new", "half a key");
  init_root(root_, key_);
  EXPECT_EQ(fs::read_key_file(key_).size(), 1U);
}

TEST_F(InitRoot, a_key_that_is_damaged_open_to_others_or_a_link_to_nothing_is_refused_and_kept) {
  init_root(root_);
  ASSERT_EQ(chmod(key_.c_str(), 0644), 0);
  EXPECT_NE(refusal(key_).find("chmod 600"), std::string::npos);
  const std::string damaged = place_.path + "/damaged";
  test::put(damaged, "no key");
  ASSERT_EQ(chmod(damaged.c_str(), 0600), 0);
  EXPECT_NE(refusal(damaged).find("line 1"), std::string::npos);
  EXPECT_EQ(test::content(damaged), "no key");
  std::filesystem::create_symlink("absent", place_.path + "/link");
  EXPECT_NE(refusal(place_.path + "/link").find("there is no key file"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(place_.path + "/absent"));
}

TEST_F(InitRoot, a_place_that_cannot_be_written_is_a_key_file_error_that_says_what_to_do) {
  EXPECT_NE(refusal(place_.path + "/absent/speed.key").find("name another place"), std::string::npos);
}

TEST_F(InitRoot, a_root_that_everybody_can_write_to_is_refused_before_a_key_is_there) {
  std::filesystem::create_directories(root_);
  ASSERT_EQ(chmod(root_.c_str(), 0777), 0);
  EXPECT_THROW(init_root(root_), RootError);
  EXPECT_FALSE(std::filesystem::exists(key_));
}

TEST_F(InitRoot, without_words_the_environment_says_where) {
  setenv("SPEED_ROOT", root_.c_str(), 1);
  setenv("SPEED_KEY", (place_.path + "/own.key").c_str(), 1);
  EXPECT_EQ(init_root(), root_);
  unsetenv("SPEED_ROOT");
  unsetenv("SPEED_KEY");
  EXPECT_EQ(mode_of(place_.path + "/own.key"), 0600);
}

}  // namespace
}  // namespace speed
