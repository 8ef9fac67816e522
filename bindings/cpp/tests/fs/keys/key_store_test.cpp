// W-14: a key file is one only if nobody else can read it.
#include "fs/keys/key_store.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "one_lane.hpp"
#include "speed/error.hpp"

namespace speed::fs {
namespace {

class KeyStore : public testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"SPEED_ROOT", "SPEED_KEY", "XDG_RUNTIME_DIR", "CREDENTIALS_DIRECTORY"}) unsetenv(name);
  }

  static std::string refusal(const std::string& path) {
    try {
      read_key_file(path);
    } catch (const KeyFileError& refused) {
      return refused.what();
    }
    return "accepted";
  }

  test::TestRoot root_;
  const std::string path_ = root_.path + "/speed.key";
};

TEST_F(KeyStore, a_private_key_file_is_read_w_14) { EXPECT_EQ(read_key_file(path_).size(), 1U); }

TEST_F(KeyStore, what_is_none_is_refused_with_what_to_do_w_14) {
  EXPECT_NE(refusal(root_.path + "/absent").find("speed root init"), std::string::npos);
  EXPECT_NE(refusal(root_.path).find("no regular file"), std::string::npos);
  for (const mode_t mode : {0644U, 0604U, 0620U, 0660U, 0610U, 0601U}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_NE(refusal(path_).find("chmod 600"), std::string::npos) << std::oct << mode;
  }
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  test::put(path_, test::content(path_) + std::string(5000, ' '));
  EXPECT_NE(refusal(path_).find("too large"), std::string::npos);
  if (geteuid() != 0) return;  // only root can make the file of somebody else
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_NE(refusal(path_).find("uid 12345"), std::string::npos);
}

// What Kubernetes mounts for a secret with defaultMode 0440 and fsGroup.
TEST_F(KeyStore, the_secret_of_a_pod_is_read_by_who_is_in_its_group_w_14) {
  const std::string volume = root_.path + "/secret";
  const std::string data = volume + "/..2024_05_06";
  std::filesystem::create_directories(data);
  std::filesystem::copy_file(path_, data + "/speed.key");
  ASSERT_EQ(chmod((data + "/speed.key").c_str(), 0440), 0);
  std::filesystem::create_directory_symlink("..2024_05_06", volume + "/..data");
  std::filesystem::create_symlink("..data/speed.key", volume + "/speed.key");
  ASSERT_EQ(chmod(volume.c_str(), 03777), 0);
  EXPECT_EQ(read_key_file(volume + "/speed.key").size(), 1U);
  if (geteuid() != 0) return;
  ASSERT_EQ(chown((data + "/speed.key").c_str(), 0, 54321), 0);
  EXPECT_NE(refusal(volume + "/speed.key").find("chmod 600"), std::string::npos);
}

TEST_F(KeyStore, links_are_followed_up_and_down_but_not_without_end_w_14) {
  std::filesystem::create_directories(root_.path + "/deep/er");
  std::filesystem::create_directory_symlink("deep/er", root_.path + "/directory");
  std::filesystem::create_symlink("./deep/../directory/../../speed.key", root_.path + "/relative");
  std::filesystem::create_symlink(root_.path + "/relative", root_.path + "/absolute");
  EXPECT_EQ(read_key_file(root_.path + "/absolute").size(), 1U);
  std::filesystem::create_symlink("two", root_.path + "/one");
  std::filesystem::create_symlink("one", root_.path + "/two");
  EXPECT_NE(refusal(root_.path + "/one").find("more than 40 links"), std::string::npos);
}

TEST_F(KeyStore, a_directory_to_which_others_can_write_is_refused_unless_it_is_sticky_w_14) {
  const std::string open = root_.path + "/open";
  std::filesystem::create_directories(open + "/private");
  std::filesystem::copy_file(path_, open + "/private/speed.key");
  std::filesystem::create_symlink(open + "/private/speed.key", root_.path + "/link");
  for (const mode_t mode : {0777U, 0775U, 0757U}) {
    ASSERT_EQ(chmod(open.c_str(), mode), 0);
    EXPECT_NE(refusal(open + "/private/speed.key").find("chmod go-w " + open), std::string::npos);
    EXPECT_NE(refusal(root_.path + "/link").find("chmod go-w " + open), std::string::npos);
  }
  ASSERT_EQ(chmod(open.c_str(), 01777), 0);
  EXPECT_EQ(read_key_file(open + "/private/speed.key").size(), 1U);
}

TEST_F(KeyStore, a_step_of_another_user_is_refused_w_14) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make the files of somebody else";
  std::filesystem::create_symlink("speed.key", root_.path + "/link");
  ASSERT_EQ(lchown((root_.path + "/link").c_str(), 54321, 54321), 0);
  EXPECT_NE(refusal(root_.path + "/link").find("link belongs to another user (uid 54321)"), std::string::npos);
  ASSERT_EQ(chown(root_.path.c_str(), 54321, 54321), 0);
  EXPECT_NE(refusal(path_).find(root_.path + " belongs to another user"), std::string::npos);
}

TEST_F(KeyStore, a_key_file_is_never_overwritten_w_14) {
  EXPECT_THROW(write_key_file(path_, {wire::Key{}}), KeyFileError);
}

TEST_F(KeyStore, root_and_key_are_where_the_environment_says) {
  const std::string shared = default_root();
  EXPECT_NE(shared.find("/speed-" + std::to_string(geteuid())), std::string::npos);
  EXPECT_EQ(default_key_path("/r"), "/r/speed.key");
  setenv("XDG_RUNTIME_DIR", (root_.path + "/absent").c_str(), 1);
  EXPECT_EQ(default_root(), shared);
  setenv("XDG_RUNTIME_DIR", root_.path.c_str(), 1);
  EXPECT_EQ(default_root(), root_.path + "/speed");
  setenv("SPEED_ROOT", "/somewhere", 1);
  setenv("SPEED_KEY", "/keys/a", 1);
  EXPECT_EQ(default_root(), "/somewhere");
  EXPECT_EQ(default_key_path("/r"), "/keys/a");
  unsetenv("SPEED_KEY");
  setenv("CREDENTIALS_DIRECTORY", root_.path.c_str(), 1);
  EXPECT_EQ(default_key_path("/r"), path_);
  setenv("CREDENTIALS_DIRECTORY", "/absent", 1);
  EXPECT_EQ(default_key_path("/r"), "/r/speed.key");
}

}  // namespace
}  // namespace speed::fs
