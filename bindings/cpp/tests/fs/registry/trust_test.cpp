// a root is used only if nobody else can change it or what lies above it.
#include "core/trust.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cstdlib>
#include <map>

#include "fs/keys/key_store.hpp"
#include "fs/registry/root.hpp"
#include "one_lane.hpp"
#include "speed/error.hpp"
#include "vectors.hpp"

namespace speed::fs {
namespace {

using core::Trust;
using test::cases;
using test::what;

constexpr uid_t somebody = 54321;

Trust verdict(const test::Json& item) {
  static const std::map<std::string, Trust> verdicts{{"trusted", Trust::trusted}, {"group", Trust::group},
                                                     {"owner", Trust::owner},     {"writable", Trust::writable},
                                                     {"listed", Trust::listed},   {"stranger", Trust::stranger}};
  return verdicts.at(item["verdict"].get<std::string>());
}

core::Step step(const test::Json& item) {
  core::Step step{
      item["owner"], item["group"], static_cast<mode_t>(std::stoul(item["mode"].get<std::string>(), nullptr, 8)), {}};
  for (const auto& list : item["lists"]) step.lists.push_back(test::bytes_of(list));
  return step;
}

core::User who_in(const test::Json& item) { return {item["user"], item["groups"].get<std::vector<gid_t>>()}; }

TEST(Trust, a_step_of_a_way_is_trusted_if_only_root_and_this_user_can_change_it_r_24) {
  for (const auto& item : cases("trust", "steps")) {
    EXPECT_EQ(core::judge_step(step(item), who_in(item)), verdict(item)) << what(item);
  }
}

TEST(Trust, a_root_is_private_or_a_groups_that_was_asked_for_r_24) {
  for (const auto& item : cases("trust", "roots")) {
    EXPECT_EQ(core::judge_root(step(item), who_in(item), item["inside"]), verdict(item)) << what(item);
  }
}

class RootTrust : public testing::Test {
 protected:
  RootTrust() { chmod(place_.path.c_str(), 01777); }

  static std::string refusal(const std::string& root) {
    try {
      prepare_root(root);
    } catch (const RootError& refused) {
      return refused.what();
    }
    return "accepted";
  }

  test::TestRoot place_{std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path()};
  const std::string root_ = place_.path + "/root";
};

TEST_F(RootTrust, a_root_that_another_user_made_first_is_refused_r_24) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make the files of somebody else";
  ASSERT_EQ(mkdir(root_.c_str(), 0700), 0);
  for (const mode_t mode : {0700U, 0770U, 02770U}) {
    ASSERT_EQ(chown(root_.c_str(), somebody, getegid()), 0);
    ASSERT_EQ(chmod(root_.c_str(), mode), 0);
    EXPECT_NE(refusal(root_).find(root_ + " belongs to another user (uid 54321)"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(root_ + "/speed_registry"));
}

TEST_F(RootTrust, a_root_below_a_directory_that_others_can_change_is_refused_r_24) {
  ASSERT_EQ(mkdir(root_.c_str(), 0700), 0);
  for (const mode_t mode : {0777U, 0775U}) {
    ASSERT_EQ(chmod(root_.c_str(), mode), 0);
    EXPECT_NE(refusal(root_ + "/deep/root").find("run `chmod go-w " + root_ + "`"), std::string::npos);
  }
  ASSERT_EQ(chmod(root_.c_str(), 01777), 0);
  EXPECT_EQ(refusal(root_ + "/deep/root"), "accepted");
}

TEST_F(RootTrust, a_root_whose_access_list_lets_another_user_write_is_refused_r_24) {
  ASSERT_EQ(mkdir(root_.c_str(), 0700), 0);
  Bytes list;
  for (const auto& item : cases("trust", "roots")) {
    if (item["name"] == "another user may write") list = test::bytes_of(item["lists"][0]);
  }
  for (const char* const name : {"system.posix_acl_access", "system.posix_acl_default"}) {
    if (setxattr(root_.c_str(), name, list.data(), list.size(), 0) != 0) GTEST_SKIP() << "no access lists here";
    ASSERT_EQ(chmod(root_.c_str(), 0700), 0);
    EXPECT_NE(refusal(root_).find("setfacl -bk " + root_), std::string::npos) << name;
    ASSERT_EQ(removexattr(root_.c_str(), name), 0);
  }
  EXPECT_EQ(refusal(root_), "accepted");
}

// Nobody asked for the root of a group.
TEST_F(RootTrust, a_root_in_a_directory_of_a_group_is_private_all_the_same_r_25) {
  ASSERT_EQ(chmod(place_.path.c_str(), 03777), 0);
  prepare_root(root_ + "/deep");
  for (const char* const made : {"", "/deep", "/deep/speed_registry"}) EXPECT_TRUE(is_private(root_ + made)) << made;
}

TEST_F(RootTrust, a_registry_that_others_can_change_is_refused_r_24) {
  prepare_root(root_);
  const std::string registry = root_ + "/speed_registry";
  for (const mode_t mode : {0770U, 01777U}) {
    ASSERT_EQ(chmod(registry.c_str(), mode), 0);
    EXPECT_NE(refusal(root_).find("can write to " + registry), std::string::npos);
  }
}

TEST_F(RootTrust, a_session_directory_to_which_others_have_a_right_is_passed_over_w_14) {
  setenv("XDG_RUNTIME_DIR", place_.path.c_str(), 1);
  for (const mode_t mode : {0770U, 0755U}) {
    ASSERT_EQ(chmod(place_.path.c_str(), mode), 0);
    EXPECT_NE(default_root().find("/speed-" + std::to_string(geteuid())), std::string::npos);
  }
  unsetenv("XDG_RUNTIME_DIR");
}

}  // namespace
}  // namespace speed::fs
