// W-14: a key file is one only if nobody else can read it.
#include "fs/key_store.hpp"

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
    for (const char* name : {"SPEED_ROOT", "SPEED_KEY", "XDG_RUNTIME_DIR"}) unsetenv(name);
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
  EXPECT_NE(refusal(root_.path + "/absent").find("speed init"), std::string::npos);
  EXPECT_NE(refusal(root_.path).find("no regular file"), std::string::npos);
  std::filesystem::create_symlink(path_, root_.path + "/link");
  EXPECT_NE(refusal(root_.path + "/link").find("cannot read"), std::string::npos);
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  EXPECT_NE(refusal(path_).find("chmod 600"), std::string::npos);
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  test::put(path_, test::content(path_) + std::string(5000, ' '));
  EXPECT_NE(refusal(path_).find("too large"), std::string::npos);
  if (geteuid() != 0) return;  // only root can make the file of somebody else
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_NE(refusal(path_).find("uid 12345"), std::string::npos);
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
}

}  // namespace
}  // namespace speed::fs
