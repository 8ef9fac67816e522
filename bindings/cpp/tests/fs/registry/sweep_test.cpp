// What is left of names that do not come back is removed, and nothing that anybody may need (R-4, R-24 to R-27, L-15).
#include "fs/registry/sweep.hpp"

#include <gtest/gtest.h>
#include <sys/file.h>

#include <set>
#include <thread>

#include "fs/clock.hpp"
#include "fs/files.hpp"
#include "fs/registry/claim.hpp"
#include "fs/registry/registration.hpp"
#include "one_lane.hpp"
#include "speed/error.hpp"
#include "vectors.hpp"
#include "wire/envelope/cursor.hpp"

namespace speed::fs {
namespace {

using test::what;

std::vector<wire::Key> registry_keys() {
  return wire::Keyring(test::keys_of(test::cases("floors", "accepted_keys"))).registry_keys();
}

TEST(Floors, valid_ones_are_read_and_written_as_the_vectors_say_r_24) {
  for (const test::Json& item : test::cases("floors", "floors_valid")) {
    const Bytes data = test::bytes_of(item["hex"]);
    wire::Floors expected{};
    for (const auto& [at, number] : item["floors"].items()) expected[std::stoul(at)] = number.get<std::uint32_t>();
    EXPECT_EQ(wire::decode_floors(data, registry_keys()), expected) << what(item);
    const bool rewritten = std::ranges::any_of(
        registry_keys(), [&](const auto& key) { return wire::encode_floors(expected, key) == data; });
    EXPECT_TRUE(rewritten) << what(item);
  }
}

TEST(Floors, what_is_none_is_refused_r_24) {
  for (const test::Json& item : test::cases("floors", "floors_invalid")) {
    EXPECT_THROW(wire::decode_floors(test::bytes_of(item["hex"]), registry_keys()), WireError) << what(item);
  }
}

TEST(ClaimFiles, they_tell_what_the_vectors_say_r_4) {
  for (const test::Json& item : test::cases("floors", "claims")) {
    const Bytes data = test::bytes_of(item["hex"]);
    const std::optional<Claimant> told = decode_claim(wire::text(data), registry_keys());
    const test::Json& expected = item["claim"];
    ASSERT_EQ(told.has_value(), !expected.is_null()) << what(item);
    if (!told) continue;
    EXPECT_EQ(told->identity.pid, expected["pid"].get<std::int64_t>()) << what(item);
    EXPECT_EQ(told->identity.boot_id, expected["boot_id"].get<std::string>()) << what(item);
    EXPECT_EQ(told->lease_ms, expected["lease"].get<std::int64_t>()) << what(item);
    EXPECT_EQ(told->made_ms ? test::Json(*told->made_ms) : test::Json(), expected["made_monotonic_ms"]) << what(item);
    EXPECT_EQ(told->above ? test::Json(*told->above) : test::Json(), expected["above"]) << what(item);
    EXPECT_EQ(told->ephemeral, expected["ephemeral"].get<bool>()) << what(item);
    EXPECT_EQ(told->sweeps, expected["sweeps"].get<bool>()) << what(item);
  }
}

class SweepTest : public testing::Test {
 protected:
  SweepTest() { registry_.prepare(); }

  std::unique_ptr<Registration> registered(Registry& registry, const std::string& name, bool ephemeral = false) {
    Registration::Settings wish{name, 30'000, 5'000, {}, {}, "c++"};
    wish.ephemeral = ephemeral;
    return Registration::make(registry, wish, [](const Won&) {});
  }
  std::unique_ptr<Registration> registered(const std::string& name, bool ephemeral = false) {
    return registered(registry_, name, ephemeral);
  }

  // An ephemeral node that ran and left.
  std::uint32_t live_once(const std::string& name = "worker") {
    const auto registration = registered(name, true);
    Inbox::prepare(root_.path, name);
    registration->expire();
    return registration->generation();
  }

  // A claim that this process, or one that is gone, made.
  void claim(const std::string& name, std::uint32_t generation, bool gone, bool ephemeral, bool sweeps = false) {
    Claimant maker{.identity = registry_.observer(), .lease_ms = 30'000, .made_ms = monotonic_ms(), .above = 0};
    maker.ephemeral = ephemeral;
    maker.sweeps = sweeps;
    if (gone) maker.identity.pid_start = 1;
    EXPECT_TRUE(claims(name).take(generation, maker));
  }

  // The entry of a node whose last heartbeat was so long ago.
  void leave_entry(const std::string& name, std::int64_t age_ms) {
    const auto registration = registered(name);
    registration->update([&](wire::Entry& entry) { entry.heartbeat_monotonic_ms = monotonic_ms() - age_ms; });
    registration->close();
  }

  std::string lane_of(const std::string& target, const std::string& sender) {
    Inbox::prepare(root_.path, target);
    std::filesystem::create_directory(wire::lane_dir(root_.path, target, sender));
    return wire::lane_dir(root_.path, target, sender);
  }

  Claims claims(const std::string& name) { return {root_.path, name, ring_}; }
  std::uint32_t floor() { return floor_of(root_.path, "worker", ring_); }

  // How many files and directories of the root bear a name.
  std::size_t left_of(const std::string& name) {
    std::size_t found = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(root_.path)) {
      found += file.path().filename().string().starts_with(name) ? 1 : 0;
    }
    return found;
  }

  test::TestRoot root_;
  wire::Keyring ring_{{wire::Key{}}};
  Registry registry_{root_.path, ring_};
};

// --- the floor ---

TEST_F(SweepTest, a_floor_never_falls_r_24) {
  EXPECT_EQ(floor(), 0U);
  raise_floor(root_.path, "worker", 7, ring_);
  raise_floor(root_.path, "worker", 3, ring_);
  EXPECT_EQ(floor(), 7U);
}

TEST_F(SweepTest, those_who_raise_it_at_once_lose_nothing_r_24) {
  std::vector<std::thread> threads;
  for (std::uint32_t n = 1; n < 20; ++n) {
    threads.emplace_back([this, n] { raise_floor(root_.path, "node" + std::to_string(n), n, ring_); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint32_t n = 1; n < 20; ++n) EXPECT_GE(floor_of(root_.path, "node" + std::to_string(n), ring_), n);
}

TEST_F(SweepTest, a_lock_that_another_holds_is_waited_for_and_then_told_r_24) {
  const auto held = Lock::take(wire::floor_lock_path(root_.path), 0s);
  ASSERT_TRUE(held);
  EXPECT_THROW(raise_floor(root_.path, "worker", 7, ring_, 10ms), StorageError);
  EXPECT_EQ(floor(), 0U);
}

TEST_F(SweepTest, a_name_begins_above_its_floor_whether_it_was_claimed_or_not_r_5) {
  registered("other")->remove();
  for (const std::string name : {"worker", "other"}) {
    raise_floor(root_.path, name, 7, ring_);
    EXPECT_EQ(registered(name)->generation(), 8U);
  }
}

TEST_F(SweepTest, an_altered_floor_starts_nobody_and_nothing_is_forgotten_r_24) {
  live_once();
  const Bytes foreign = wire::encode_floors(wire::Floors{9}, wire::Key{std::byte{7}});
  test::put(wire::child_path(wire::claims_dir(root_.path), wire::floor_name), std::string(wire::text(foreign)));
  EXPECT_THROW(registered("billing"), RegistrationError);
  EXPECT_THROW(sweep(registry_, "worker"), WireError);
  EXPECT_EQ(claims("worker").newest(), 1U);
}

TEST_F(SweepTest, a_floor_of_an_older_key_is_sealed_anew_r_24) {
  raise_floor(root_.path, "worker", 7, ring_);
  const wire::Key added{std::byte{5}};
  seal_floor_anew(root_.path, wire::Keyring({added, wire::Key{}}));
  EXPECT_EQ(floor_of(root_.path, "worker", wire::Keyring({added})), 7U);
}

// --- forgetting ---

TEST_F(SweepTest, all_that_is_left_of_an_ephemeral_name_goes_r_26) {
  live_once();
  EXPECT_TRUE(sweep(registry_, "worker"));
  EXPECT_EQ(left_of("worker"), 0U);
  EXPECT_EQ(floor(), 1U);
}

TEST_F(SweepTest, a_name_that_comes_back_begins_above_what_was_forgotten_r_26) {
  for (std::uint32_t life = 1; life < 4; ++life) {
    EXPECT_EQ(live_once(), life);
    EXPECT_TRUE(sweep(registry_, "worker"));
  }
}

TEST_F(SweepTest, a_name_stays_while_an_inbox_holds_a_lane_of_it_r_26) {
  live_once();
  const std::string lane = lane_of("billing", "worker");
  EXPECT_FALSE(sweep(registry_, "worker"));
  EXPECT_EQ(claims("worker").newest(), 1U);
  EXPECT_FALSE(std::filesystem::exists(wire::node_dir(root_.path, "worker")));
  std::filesystem::remove(lane);
  EXPECT_TRUE(sweep(registry_, "worker"));
}

TEST_F(SweepTest, who_lives_or_starts_is_left_alone_r_26) {
  const auto alive = registered("worker", true);
  claim("starting", 1, false, true);
  EXPECT_FALSE(sweep(registry_, "worker"));
  EXPECT_FALSE(sweep(registry_, "starting"));
  EXPECT_NE(registry_.live("worker"), nullptr);
  EXPECT_EQ(claims("starting").newest(), 1U);
}

TEST_F(SweepTest, what_died_at_its_start_or_while_it_swept_is_forgotten_at_once_r_26) {
  claim("worker", 1, true, true);
  claim("worker", 2, true, true, true);
  EXPECT_TRUE(sweep(registry_, "worker"));
  EXPECT_EQ(left_of("worker"), 0U);
  EXPECT_EQ(floor(), 2U);
}

TEST_F(SweepTest, a_node_that_may_come_back_keeps_claim_and_directory_r_26) {
  live_once();
  registered("worker")->remove();
  Inbox::prepare(root_.path, "worker");
  EXPECT_FALSE(sweep(registry_, "worker"));
  EXPECT_FALSE(forget(registry_, "worker"));
  EXPECT_EQ(claims("worker").newest(), 2U);
  EXPECT_TRUE(std::filesystem::exists(wire::inbox_dir(root_.path, "worker")));
}

TEST_F(SweepTest, a_life_after_an_ephemeral_one_takes_nothing_of_it_where_all_lanes_were_opened_r_5) {
  live_once();
  const wire::Key key = wire::lane_key(ring_.sealing_key(), wire::node_id("worker"), wire::node_id("billing"));
  const Bytes cursor =
      wire::encode_cursor({.receiver_generation = 1, .position = {1, 1, 0}, .last_sequence = 0, .unfinished = {}}, key);
  test::put(lane_of("billing", "worker") + "/cursor.000001", std::string(wire::text(cursor)));
  registered("worker")->remove();
  EXPECT_EQ(forgotten_up_to(root_.path, "worker", ring_), 1U);
}

TEST_F(SweepTest, what_an_ephemeral_life_sent_is_kept_for_who_has_yet_to_open_its_lane_r_5) {
  live_once();
  lane_of("billing", "worker");
  registered("worker")->remove();
  EXPECT_EQ(forgotten_up_to(root_.path, "worker", ring_), 0U);
}

TEST_F(SweepTest, a_claim_that_its_maker_has_yet_to_write_forgets_nothing_l_15) {
  registered("worker")->remove();
  raise_floor(root_.path, "worker", 9, ring_);  // by another name that has the same
  test::put(wire::claim_path(root_.path, "worker", 10), "");
  EXPECT_EQ(forgotten_up_to(root_.path, "worker", ring_), 0U);
}

TEST_F(SweepTest, what_is_no_claim_is_passed_by_l_15) {
  registered("worker")->remove();
  std::filesystem::create_symlink("elsewhere", wire::claim_path(root_.path, "worker", 2));
  EXPECT_EQ(forgotten_up_to(root_.path, "worker", ring_), 0U);
}

// --- stale entries ---

TEST_F(SweepTest, an_entry_goes_once_it_has_been_stale_for_a_lease_and_its_claim_stays_r_27) {
  leave_entry("billing", 61'000);
  leave_entry("recent", 31'000);
  EXPECT_TRUE(sweep(registry_, "billing"));
  EXPECT_FALSE(sweep(registry_, "recent"));
  EXPECT_EQ(registry_.read("billing"), nullptr);
  EXPECT_NE(registry_.read("recent"), nullptr);
  EXPECT_EQ(claims("billing").newest(), 1U);
}

TEST_F(SweepTest, stale_entries_of_ephemeral_nodes_go_only_with_their_claims_r_13) {
  live_once();
  EXPECT_TRUE(registry_.remove_stale().empty());
  EXPECT_NE(registry_.read("worker"), nullptr);
}

TEST_F(SweepTest, a_round_finds_stale_entries_and_claims_without_one_r_27) {
  live_once();
  claim("unborn", 1, true, true);
  leave_entry("billing", 61'000);
  registered("analytics")->remove();
  const auto alive = registered("alive");
  Leftovers leftovers(registry_);
  for (int round = 0; round < 2; ++round) {
    leftovers.begin_round();
    while (leftovers.sweep_next()) {
    }
  }
  EXPECT_EQ(left_of("worker") + left_of("unborn"), 0U);
  EXPECT_EQ(left_of("billing") + left_of("analytics"), 2U) << "their claims";
  EXPECT_EQ(left_of("alive"), 2U);
}

// --- holding a name ---

TEST_F(SweepTest, who_starts_waits_for_a_sweeper_and_then_begins_r_5) {
  live_once();
  Registry theirs(root_.path, ring_);
  std::atomic<bool> released = false;
  std::optional<Hold> hold(std::in_place, registry_, "worker");
  std::thread starter([&] {
    EXPECT_EQ(registered(theirs, "worker")->generation(), 2U);
    EXPECT_TRUE(released);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  released = true;
  hold.reset();
  starter.join();
}

TEST_F(SweepTest, a_sweeper_that_does_not_end_is_not_pushed_aside_r_5) {
  const Hold hold(registry_, "worker");
  const Claimant claimant{.identity = registry_.observer(), .lease_ms = 30'000};
  EXPECT_THROW(win(registry_, "worker", claimant, {.sweep_timeout = 20ms}), NameTakenError);
  EXPECT_THROW(Hold(registry_, "worker"), NameTakenError);
}

TEST_F(SweepTest, a_sweeper_that_cannot_be_seen_holds_a_name_for_its_lease_only_r_5) {
  Claimant maker{.identity = registry_.observer(), .lease_ms = 1000, .made_ms = monotonic_ms() - 1001};
  maker.identity.pid_namespace = "elsewhere";  // it may have died there
  maker.sweeps = true;
  ASSERT_TRUE(claims("worker").take(1, maker));
  registered("worker")->remove();
  maker.made_ms = monotonic_ms();
  ASSERT_TRUE(claims("worker").take(3, maker));
  EXPECT_THROW(Hold(registry_, "worker"), NameTakenError);
}

TEST_F(SweepTest, nobody_waits_to_sweep_a_claim_of_another_boot_r_26) {
  Claimant maker{.identity = registry_.observer(), .lease_ms = 30'000};
  maker.identity.boot_id = "elsewhere";
  ASSERT_TRUE(claims("worker").take(1, maker));
  EXPECT_THROW(Hold(registry_, "worker"), NameTakenError);
}

TEST_F(SweepTest, many_who_sweep_and_start_at_once_never_use_a_generation_twice_r_26) {
  std::mutex lock;
  std::multiset<std::uint32_t> used;
  const auto live = [&] {
    Registry own(root_.path, ring_);
    for (int life = 0; life < 15; ++life) {
      try {
        const auto registration = registered(own, "worker", true);
        {
          const std::lock_guard guard(lock);
          used.insert(registration->generation());
        }
        registration->expire();
        sweep(own, "worker");
      } catch (const NameTakenError&) {
        continue;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n) threads.emplace_back(live);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(used.empty());
  EXPECT_EQ(std::set<std::uint32_t>(used.begin(), used.end()).size(), used.size());
}

// --- lanes ---

TEST_F(SweepTest, a_claim_tells_what_was_forgotten_before_its_name_was_claimed_again_l_15) {
  EXPECT_EQ(forgotten_up_to(root_.path, "worker", ring_), 0U);
  live_once();
  sweep(registry_, "worker");
  EXPECT_EQ(forgotten_up_to(root_.path, "worker", ring_), 1U);
  registered("worker")->remove();
  registered("worker")->remove();
  EXPECT_EQ(forgotten_up_to(root_.path, "worker", ring_), 1U);
}

TEST_F(SweepTest, the_lane_of_an_ephemeral_sender_is_removed_unless_it_changed_l_27) {
  live_once();
  const std::string lane = lane_of("billing", "worker");
  test::put(lane + "/cursor.000001", "");
  Inbox inbox(root_.path, "billing", 1, ring_);
  ASSERT_TRUE(test::eventually([&] { return inbox.changed_at("worker") > 0; }));
  EXPECT_FALSE(inbox.remove_lane("worker", inbox.changed_at("worker") - 1, registry_));
  EXPECT_TRUE(std::filesystem::exists(lane + "/cursor.000001"));
  EXPECT_TRUE(inbox.remove_lane("worker", inbox.changed_at("worker"), registry_));
  EXPECT_FALSE(std::filesystem::exists(lane));
  EXPECT_EQ(claims("worker").newest(), 1U) << "it was only held";
}

TEST_F(SweepTest, entries_that_nobody_writes_any_more_are_not_counted_as_live_r_27) {
  const auto alive = registered("alive");
  const auto dead = registered("dead");
  const std::filesystem::path entry = wire::entry_path(root_.path, "dead");
  std::filesystem::last_write_time(entry, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(written_within(registry_, 30s), 1U);
}

TEST_F(SweepTest, the_lane_of_a_sender_that_may_come_back_stays_l_27) {
  registered("worker")->remove();
  const std::string lane = lane_of("billing", "worker");
  Inbox inbox(root_.path, "billing", 1, ring_);
  ASSERT_TRUE(test::eventually([&] { return inbox.changed_at("worker") > 0; }));
  EXPECT_FALSE(inbox.remove_lane("worker", inbox.changed_at("worker"), registry_));
  EXPECT_TRUE(std::filesystem::exists(lane));
}

}  // namespace
}  // namespace speed::fs
