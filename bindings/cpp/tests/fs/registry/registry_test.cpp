// What of a registry is known when the system fails, and an own entry's changes and end.
#include "fs/registry/registry.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "few_files.hpp"
#include "fs/registry/registration.hpp"
#include "one_lane.hpp"
#include "speed/error.hpp"

namespace speed::fs {
namespace {

class RegistryTest : public testing::Test {
 protected:
  RegistryTest() { registry_.prepare(); }
  void TearDown() override { test::fail(test::Call::none, 0); }

  std::unique_ptr<Registration> registered(const std::string& name) {
    const Registration::Settings wish{name, 30'000, 5'000, {}, {"analytics"}, "c++"};
    return Registration::make(registry_, wish, [](const Won&) {});
  }

  test::TestRoot root_;
  wire::Keyring ring_{{wire::Key{}}};
  Registry registry_{root_.path, ring_};
};

TEST_F(RegistryTest, a_directory_that_cannot_be_listed_is_not_empty_r_20) {
  const auto billing = registered("billing");
  EXPECT_EQ(registry_.live_entries().size(), 1U);
  {
    const test::FewFiles none;
    EXPECT_THROW(registry_.live_entries(), StorageError);
    EXPECT_THROW(registry_.remove_stale(), StorageError);
  }
  EXPECT_EQ(registry_.live_entries().size(), 1U);
}

TEST_F(RegistryTest, a_listing_leaves_out_who_was_killed_however_young_its_heartbeat_is_r_8) {
  const auto billing = registered("billing");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Registry own(root_.path, ring_);
    const auto worker = Registration::make(own, {"worker", 30'000, 5'000, {}, {}, "c++"}, [](const Won&) {});
    raise(SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(registry_.live_entries().size(), 2U) << "a sender need not look";
  const std::vector<wire::Entry> live = registry_.surely_live_entries();
  ASSERT_EQ(live.size(), 1U);
  EXPECT_EQ(live.front().name, "billing");
  EXPECT_EQ(registry_.live_entries().size(), 1U) << "who was not found stays gone";
}

TEST_F(RegistryTest, an_entry_that_cannot_be_opened_counts_as_it_was_read_last_r_20) {
  const auto billing = registered("billing");
  ASSERT_NE(registry_.live("billing"), nullptr);
  billing->update([](wire::Entry& entry) { entry.allow = {"other"}; });
  {
    const test::FewFiles none;
    ASSERT_NE(registry_.live("billing"), nullptr);
    EXPECT_EQ(registry_.live("billing")->allow, std::vector<std::string>{"analytics"});
    EXPECT_FALSE(registry_.is_unreadable("billing"));
  }
  EXPECT_EQ(registry_.live("billing")->allow, std::vector<std::string>{"other"});
  billing->remove();
  const test::FewFiles none;
  EXPECT_EQ(registry_.live("billing"), nullptr) << "it is absent, which needs no file to be seen";
}

TEST_F(RegistryTest, who_waits_for_a_claim_says_so_once_and_how_to_end_it_r_5) {
  const std::string path = wire::claim_path(root_.path, "billing", 1);
  std::ofstream(path).close();
  std::vector<std::string> told;
  Registration::Settings wish{"billing", 30'000, 5'000, {}, {}, "c++"};
  wish.tell = [&](const std::string& text) {
    told.push_back(text);
    EXPECT_EQ(chmod(path.c_str(), 0400), 0);
  };
  const auto billing = Registration::make(registry_, wish, [](const Won&) {});
  EXPECT_EQ(billing->generation(), 2U);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("the claim " + path + " does not tell its maker"), std::string::npos) << told[0];
}

TEST_F(RegistryTest, a_heartbeat_behind_the_removal_installs_nothing_r_14_r_15) {
  const auto billing = registered("billing");
  billing->remove();
  EXPECT_NO_THROW(billing->heartbeat());
  EXPECT_FALSE(std::filesystem::exists(wire::entry_path(root_.path, "billing")));
}

TEST_F(RegistryTest, a_change_that_could_not_be_published_is_not_published_by_a_heartbeat_a_2) {
  const auto billing = registered("billing");
  test::fail(test::Call::pwrite, ENOSPC);
  EXPECT_THROW(billing->update([](wire::Entry& entry) { entry.allow = {"other"}; }), StorageError);
  test::fail(test::Call::none, 0);
  billing->heartbeat();
  EXPECT_EQ(registry_.read("billing")->allow, std::vector<std::string>{"analytics"});
}

}  // namespace
}  // namespace speed::fs
