// Entries are removed only while they are those that were meant.
#include "fs/registry/entry_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "fabric.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {
namespace {

class EntryFileTest : public testing::Test {
 protected:
  EntryFileTest() { std::filesystem::create_directories(wire::registry_dir(root_.path)); }

  void publish(const std::string& content) const {
    std::ofstream(path_ + "~") << content;
    std::filesystem::rename(path_ + "~", path_);
  }

  static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(wire::registry_dir(root_.path)), {});
  }

  test::TestRoot root_;
  const std::string path_ = wire::entry_path(root_.path, "billing");
};

TEST_F(EntryFileTest, the_entry_that_was_meant_is_removed) {
  publish("stale");
  EXPECT_TRUE(
      remove_entry_file(root_.path, "billing", [](const std::string& path) { return content(path) == "stale"; }));
  EXPECT_EQ(files(), 0);
}

TEST_F(EntryFileTest, an_entry_published_while_a_stale_one_is_removed_is_put_back) {
  publish("stale");
  int looks = 0;
  EXPECT_FALSE(remove_entry_file(root_.path, "billing", [&](const std::string& path) {
    const bool meant = content(path) == "stale";
    if (++looks == 1) publish("successor");  // it was looked at, and is replaced before it is removed
    return meant;
  }));
  EXPECT_EQ(content(path_), "successor");
  EXPECT_EQ(files(), 1);
}

TEST_F(EntryFileTest, an_entry_that_cannot_be_read_again_is_put_back_r_13) {
  publish("stale");
  int looks = 0;
  const auto look = [&](const std::string&) {
    if (++looks == 2) throw std::system_error(EMFILE, std::generic_category());
    return true;
  };
  EXPECT_FALSE(remove_entry_file(root_.path, "billing", look));
  EXPECT_EQ(content(path_), "stale");
  EXPECT_EQ(files(), 1);
}

TEST_F(EntryFileTest, an_entry_put_back_never_replaces_a_newer_one) {
  publish("stale");
  int looks = 0;
  EXPECT_FALSE(remove_entry_file(root_.path, "billing", [&](const std::string& path) {
    const bool meant = content(path) == "stale";
    publish(++looks == 1 ? "successor" : "one newer still");
    return meant;
  }));
  EXPECT_EQ(content(path_), "one newer still");
  EXPECT_EQ(files(), 1);
}

}  // namespace
}  // namespace speed::fs
