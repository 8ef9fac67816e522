// who may look at all nodes of a root is what its owner wrote, and nobody else.
#include "fs/registry/observers.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "fabric.hpp"
#include "fs/registry/root.hpp"
#include "speed/error.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {
namespace {

constexpr uid_t stranger = 54321;

class ObserversTest : public testing::Test {
 protected:
  ObserversTest() : path_(wire::observers_path(root_.path)) { prepare_root(root_.path); }

  void write(const std::string& text = "speedd\ncli.*\n", mode_t mode = 0600) const {
    std::ofstream(path_) << text;
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
  }

  std::vector<std::string> read() const { return observers_of(root_.path); }

  std::string refusal() const {
    try {
      read();
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return "";
  }

  test::TestRoot root_;
  const std::string path_;
};

TEST_F(ObserversTest, a_root_without_the_file_lets_nobody_look_a_7) { EXPECT_TRUE(read().empty()); }

TEST_F(ObserversTest, those_named_by_the_owner_may_look_a_7) {
  for (const mode_t mode : {0600U, 0640U, 0644U, 0400U}) {
    write("speedd\ncli.*\n", mode);
    EXPECT_EQ(read(), (std::vector<std::string>{"cli.*", "speedd"}));
    std::filesystem::remove(path_);
  }
}

TEST_F(ObserversTest, a_link_names_nobody_a_7) {
  std::ofstream(root_.path + "/elsewhere") << "cli.*\n";
  std::filesystem::create_symlink(root_.path + "/elsewhere", path_);
  EXPECT_NE(refusal().find("it is a link"), std::string::npos);
}

TEST_F(ObserversTest, a_file_with_a_second_name_names_nobody_a_7) {
  write();
  std::filesystem::create_hard_link(path_, root_.path + "/second");
  EXPECT_NE(refusal().find("it has a second name"), std::string::npos);
}

TEST_F(ObserversTest, what_is_no_regular_file_names_nobody_a_7) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_NE(refusal().find("it is no regular file"), std::string::npos);
}

TEST_F(ObserversTest, what_others_can_write_names_nobody_a_7) {
  for (const mode_t mode : {0602U, 0620U, 0666U}) {
    write("cli.*\n", mode);
    EXPECT_NE(refusal().find("others can write to it"), std::string::npos);
  }
}

TEST_F(ObserversTest, a_file_of_another_user_names_nobody_a_7) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make the files of somebody else";
  write();
  ASSERT_EQ(chown(path_.c_str(), stranger, stranger), 0);
  EXPECT_NE(refusal().find("it belongs to another user"), std::string::npos);
}

TEST_F(ObserversTest, a_file_that_is_too_long_or_wrong_names_nobody_a_7) {
  write(std::string(1 << 20, '#'));
  EXPECT_NE(refusal().find("more than 4096 bytes"), std::string::npos);
  write("cli.*\n*\n");
  EXPECT_NE(refusal().find("line 2 is neither"), std::string::npos);
  EXPECT_NE(refusal().find(path_), std::string::npos);
}

}  // namespace
}  // namespace speed::fs
