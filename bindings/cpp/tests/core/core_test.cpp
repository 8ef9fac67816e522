// Decisions without I/O: access, leases, sequences, cursors, lanes after damage.
#include <gtest/gtest.h>

#include <cmath>

#include "core/lane_decoder.hpp"
#include "core/least_recently_used.hpp"
#include "core/membership.hpp"
#include "core/node_state.hpp"
#include "core/observers.hpp"
#include "core/pending_calls.hpp"
#include "core/progress.hpp"
#include "core/request_barrier.hpp"
#include "speed/access_policy.hpp"
#include "speed/error.hpp"
#include "vectors.hpp"

namespace speed::core {
namespace {

TEST(Access, everyone_is_denied_at_first_a_1) { EXPECT_FALSE(AccessPolicy().allows("analytics")); }

TEST(Access, a_family_covers_names_below_it_and_not_itself_a_2) {
  const AccessPolicy policy({"etl.*"});
  EXPECT_TRUE(policy.allows("etl.1"));
  EXPECT_TRUE(policy.allows("etl.eu.1"));
  EXPECT_FALSE(policy.allows("etl"));
  EXPECT_FALSE(policy.allows("etlx"));
}

TEST(Access, an_exact_denial_outlives_a_granted_family_a_4) {
  AccessPolicy policy({"etl.*"});
  policy.deny({"etl.1"});
  EXPECT_FALSE(policy.allows("etl.1"));
  EXPECT_TRUE(policy.allows("etl.2"));
}

TEST(Access, a_grant_of_an_identity_is_published_apart_and_goes_with_its_name_i_8) {
  const std::string one = "etl.1@" + std::string(40, 'a');
  const std::string other = "etl.1@" + std::string(40, 'b');
  using Names = std::vector<std::string>;
  AccessPolicy policy({"etl.1", one, "etl.10", other});
  EXPECT_TRUE(policy.allows("etl.1"));
  EXPECT_TRUE(policy.publishes("etl.1"));
  EXPECT_EQ(policy.allowed(), Names{"etl.10"});
  EXPECT_EQ(policy.identities(), (Names{one, other}));
  EXPECT_EQ(policy.fingerprints("etl.1"), (Names{std::string(40, 'a'), std::string(40, 'b')}));
  EXPECT_EQ(policy.fingerprints("etl.10"), Names{});
  policy.deny({"etl.*"});
  EXPECT_EQ(policy.identities(), Names{});
  policy.allow({one});
  policy.deny({"etl.1"});
  EXPECT_FALSE(policy.allows("etl.1"));
  EXPECT_EQ(policy.identities(), Names{});
  EXPECT_THROW(policy.allow({"etl.*@" + std::string(40, 'a')}), InvalidNameError);
  EXPECT_THROW(policy.deny({one}), InvalidNameError);
}

TEST(Access, the_longest_family_decides_a_4) {
  AccessPolicy policy({"etl.*"});
  policy.deny({"etl.eu.*"});
  EXPECT_FALSE(policy.allows("etl.eu.1"));
  EXPECT_TRUE(policy.allows("etl.us.1"));
}

TEST(Access, what_a_denial_excepts_from_a_grant_is_published_with_it_a_4_l_21) {
  AccessPolicy policy({"etl.*", "billing"});
  policy.deny({"etl.1", "billing"});
  EXPECT_EQ(policy.allowed(), std::vector<std::string>{"etl.*"});
  EXPECT_EQ(policy.denied(), std::vector<std::string>{"etl.1"});
  EXPECT_TRUE(policy.publishes("etl.1"));
  EXPECT_TRUE(policy.publishes("etl.2"));
  EXPECT_FALSE(policy.publishes("billing"));
  EXPECT_FALSE(policy.publishes("etl"));
}

TEST(Access, the_owner_of_a_root_names_observers_in_a_text_a_7) {
  for (const test::Json& item : test::cases("observers", "texts")) {
    const Bytes bytes = test::bytes_of(item.at("hex"));
    const std::string text(wire::text(bytes));
    if (item.at("names").is_null()) {
      EXPECT_THROW(parse_observers(text), ConfigurationError) << test::what(item);
    } else {
      EXPECT_EQ(parse_observers(text), item.at("names").get<std::vector<std::string>>()) << test::what(item);
    }
  }
}

TEST(Access, a_node_decides_who_looks_as_its_entry_says_a_7) {
  for (const test::Json& item : test::cases("observers", "published")) {
    const auto granted = item.at("allow").get<std::vector<std::string>>();
    AccessPolicy policy;
    if (!item.at("granted_last").get<bool>()) policy.allow(granted);
    policy.deny(item.at("deny").get<std::vector<std::string>>());
    if (item.at("granted_last").get<bool>()) policy.allow(granted);
    Observers observers;
    observers.replace(item.at("observers").get<std::vector<std::string>>());
    const auto asker = item.at("asker").get<std::string>();
    EXPECT_EQ(observers.denials(policy), item.at("published_deny").get<std::vector<std::string>>()) << test::what(item);
    EXPECT_EQ(observers.include(asker, policy), item.at("observes").get<bool>()) << test::what(item);
    EXPECT_EQ(policy.allows(asker), item.at("allows").get<bool>()) << test::what(item);
  }
}

TEST(Access, denying_a_family_takes_back_the_grants_it_covers_a_4) {
  AccessPolicy policy({"etl.1", "billing"});
  policy.deny({"etl.*"});
  EXPECT_FALSE(policy.allows("etl.1"));
  EXPECT_EQ(policy.allowed(), std::vector<std::string>{"billing"});
}

TEST(Access, a_bad_pattern_changes_nothing) {
  AccessPolicy policy;
  EXPECT_THROW(policy.allow({"billing", "*"}), InvalidNameError);
  EXPECT_FALSE(policy.allows("billing"));
}

TEST(Lease, a_gone_process_is_stale_at_once_r_8) {
  EXPECT_EQ(judge({"boot", 1000, 5000}, "boot", 5001, false, 0), LeaseVerdict::stale);
}

TEST(Lease, the_same_boot_is_judged_by_its_monotonic_clock_r_8) {
  EXPECT_EQ(judge({"boot", 1000, 5000}, "boot", 6000, std::nullopt, 0), LeaseVerdict::live);
  EXPECT_EQ(judge({"boot", 1000, 5000}, "boot", 6001, std::nullopt, 0), LeaseVerdict::stale);
}

TEST(Lease, a_heartbeat_in_the_future_or_of_another_boot_is_watched_r_9_r_10) {
  EXPECT_EQ(judge({"boot", 1000, 5000}, "boot", 4999, std::nullopt, 0), LeaseVerdict::watch);
  EXPECT_EQ(judge({"other", 1000, 5000}, "boot", 9999, std::nullopt, 1000), LeaseVerdict::watch);
  EXPECT_EQ(judge({"other", 1000, 5000}, "boot", 9999, std::nullopt, 1001), LeaseVerdict::stale);
}

TEST(Lease, must_exceed_three_heartbeats_r_7) {
  EXPECT_NO_THROW(check_lease(3001, 1000));
  EXPECT_THROW(check_lease(3000, 1000), ConfigurationError);
  EXPECT_NO_THROW(check_lease(63'001, 1000, 60'000));
  EXPECT_THROW(check_lease(63'000, 1000, 60'000), ConfigurationError);
}

TEST(Lease, an_owner_that_lost_it_never_holds_it_again_r_12) {
  OwnLease lease(1000, 5000);
  EXPECT_FALSE(lease.is_lost(6000));
  EXPECT_TRUE(lease.is_lost(6001));
  lease.renew(6001);
  EXPECT_TRUE(lease.is_lost(6002));
}

TEST(Lease, an_observer_says_what_the_contract_says_r_8_r_9_r_10) {
  for (const test::Json& item : test::cases("leases", "judged")) {
    const Tenure tenure{item.at("boot"), item.at("lease"), item.at("heartbeat")};
    std::optional<bool> lives;
    if (item.at("process") != "unseen") lives = item.at("process") == "lives";
    const LeaseVerdict verdict = judge(tenure, item.at("observer"), item.at("now"), lives, item.at("unchanged"));
    const char* const said = verdict == LeaseVerdict::live    ? "live"
                             : verdict == LeaseVerdict::stale ? "stale"
                                                              : "watch";
    EXPECT_EQ(item.at("verdict"), said) << test::what(item);
  }
}

TEST(Lease, an_owner_stops_when_the_contract_says_r_12) {
  for (const test::Json& item : test::cases("leases", "owned")) {
    OwnLease lease(item.at("lease"), item.at("renewed"));
    for (const test::Json& look : item.at("looks")) {
      EXPECT_EQ(lease.is_lost(look.at(0)), look.at(1).get<bool>()) << test::what(item);
      if (!look.at(2).is_null()) lease.renew(look.at(2));
    }
  }
}

TEST(Lease, a_node_starts_with_the_settings_that_the_contract_allows_r_7_r_21) {
  for (const test::Json& item : test::cases("leases", "settings")) {
    const auto check = [&] { check_lease(item.at("lease"), item.at("heartbeat"), item.at("late")); };
    if (item.at("starts").get<bool>()) {
      EXPECT_NO_THROW(check()) << test::what(item);
    } else {
      EXPECT_THROW(check(), ConfigurationError) << test::what(item);
    }
  }
}

TEST(Sequences, duplicates_gaps_and_old_generations_are_told_apart_l_12) {
  const auto at = [](std::uint32_t generation, std::uint64_t counter) {
    return wire::make_sequence(generation, counter);
  };
  LinkReceiver link;
  EXPECT_EQ(link.judge(at(2, 1)), SequenceVerdict::next);
  EXPECT_EQ(link.judge(at(2, 1)), SequenceVerdict::duplicate);
  EXPECT_EQ(link.judge(at(2, 3)), SequenceVerdict::gap);
  EXPECT_EQ(link.judge(at(1, 9)), SequenceVerdict::old_generation);
  EXPECT_EQ(link.judge(at(3, 1)), SequenceVerdict::next);
}

TEST(Progress, one_slow_envelope_is_listed_and_blocks_nothing_l_14) {
  Progress progress({1, 1, 0}, 0);
  progress.dispatched(1, {1, 1, 0}, 10);
  progress.dispatched(2, {1, 1, 10}, 20);
  EXPECT_EQ(progress.finish(2), 10U);
  const wire::Cursor cursor = progress.cursor(1);
  EXPECT_EQ(cursor.position, (wire::Position{1, 1, 20}));
  ASSERT_EQ(cursor.unfinished.size(), 1U);
  EXPECT_EQ(cursor.unfinished[0].sequence, 1U);
}

TEST(Progress, what_is_begun_and_may_run_again_is_listed_as_such_and_lies_before_the_position_l_14) {
  Progress progress({1, 1, 0}, 0);
  progress.dispatched(1, {1, 1, 0}, 10);
  progress.dispatched(2, {1, 1, 10}, 20);
  progress.begin(2);
  const wire::Cursor cursor = progress.cursor(1);
  EXPECT_EQ(cursor.position, (wire::Position{1, 1, 20}));
  ASSERT_EQ(cursor.unfinished.size(), 2U);
  EXPECT_FALSE(cursor.unfinished[0].begun);
  EXPECT_TRUE(cursor.unfinished[1].begun);
  progress.finish(2);
  EXPECT_EQ(progress.cursor(1).unfinished.size(), 1U);
}

TEST(Progress, a_65th_unfinished_envelope_moves_the_position_back_to_its_start_l_14) {
  Progress progress({1, 1, 0}, 0);
  for (std::uint64_t n = 1; n <= 66; ++n) progress.dispatched(n, {1, 1, (n - 1) * 10}, n * 10);
  progress.finish(66);
  const wire::Cursor cursor = progress.cursor(1);
  EXPECT_EQ(cursor.unfinished.size(), wire::limits::max_unfinished);
  EXPECT_EQ(cursor.position.offset, 640U);
  EXPECT_EQ(cursor.last_sequence, 64U);
}

TEST(Progress, a_lane_stands_still_while_too_many_envelopes_or_bytes_are_unfinished_l_19) {
  Progress many({1, 1, 0}, 0);
  for (std::uint64_t n = 1; n <= Progress::max_in_hand; ++n) {
    EXPECT_FALSE(many.is_full());
    many.dispatched(n, {1, 1, n * 10}, n * 10 + 10);
  }
  EXPECT_TRUE(many.is_full());
  many.finish(7);
  EXPECT_FALSE(many.is_full());

  Progress large({1, 1, 0}, 0);
  large.redispatched({1, {1, 1, 30}});
  large.found_again(1, 30 + wire::limits::max_unfinished_bytes);
  EXPECT_FALSE(large.is_full());
  large.dispatched(2, {1, 2, 0}, 1);
  EXPECT_TRUE(large.is_full());
  large.finish(1);
  EXPECT_FALSE(large.is_full());
}

TEST(Progress, finishing_twice_counts_once) {
  Progress progress({1, 1, 0}, 0);
  progress.dispatched(1, {1, 1, 0}, 10);
  EXPECT_EQ(progress.finish(1), 10U);
  EXPECT_EQ(progress.finish(1), 0U);
}

TEST(Awake, who_was_used_longest_ago_rests_first_l_26) {
  LeastRecentlyUsed<int> awake;
  for (const int one : {1, 2, 3, 1}) EXPECT_TRUE(awake.use(one, 3).empty());
  EXPECT_EQ(awake.use(4, 3), std::vector<int>{2});
  EXPECT_FALSE(awake.contains(2));
  EXPECT_EQ(awake.keys(), (std::vector<int>{3, 1, 4}));
}

TEST(Awake, who_rests_by_itself_makes_room_l_26) {
  LeastRecentlyUsed<int> awake;
  awake.use(1, 2);
  awake.use(2, 2);
  awake.rest(1);
  EXPECT_TRUE(awake.use(3, 2).empty());
}

TEST(Time, what_was_read_is_held_to_what_can_be_calculated_with) {
  EXPECT_EQ(saturated(Seconds(0.3)), 300ms);
  EXPECT_EQ(saturated(Seconds(std::nan(""))), 0s);
  EXPECT_EQ(saturated(Seconds(HUGE_VAL)), 4'000'000'000s);
  EXPECT_EQ(saturated(std::chrono::milliseconds::min()), -4'000'000'000s);
}

TEST(PendingCalls, only_the_asked_node_can_answer_and_only_once_s_6_s_7) {
  PendingCalls calls;
  calls.add("1.1", {"billing", TimePoint(10s), PendingCall::Kind::call, [](const Outcome&) {}});
  EXPECT_FALSE(calls.take("1.1", "stranger"));
  EXPECT_TRUE(calls.take("1.1", "billing"));
  EXPECT_FALSE(calls.take("1.1", "billing"));
}

TEST(PendingCalls, what_is_late_is_taken_and_the_next_deadline_is_known) {
  PendingCalls calls;
  calls.add("1", {"a", TimePoint(5s), PendingCall::Kind::call, [](const Outcome&) {}});
  calls.add("2", {"a", TimePoint(9s), PendingCall::Kind::call, [](const Outcome&) {}});
  EXPECT_TRUE(calls.take_late(TimePoint(4s)).empty());
  EXPECT_EQ(calls.take_late(TimePoint(5s)).size(), 1U);
  EXPECT_EQ(calls.next_deadline(), TimePoint(9s));
}

TEST(PendingCalls, calls_are_numbered_as_they_are_entered_s_7) {
  PendingCalls calls;
  calls.add("1", {"billing", TimePoint(10s), PendingCall::Kind::call, [](const Outcome&) {}});
  EXPECT_EQ(calls.entered(), 1U);
  calls.add("2", {"billing", TimePoint(10s), PendingCall::Kind::call, [](const Outcome&) {}});
  EXPECT_EQ(calls.find("2")->number, 2U);
}

TEST(PendingCalls, what_is_kept_of_requests_is_bounded_and_freed_with_the_call_s_21) {
  const auto keeper = std::make_shared<KeptRequests>(wire::Buffers());
  {
    SentRequest request;
    request.payload.reserve(wire::limits::max_kept_request_bytes);
    ASSERT_TRUE(keeper->take(request.payload.capacity()));
    request.keeper = keeper;
    EXPECT_FALSE(keeper->take(1));
  }
  EXPECT_EQ(keeper->bytes(), 0U);
  EXPECT_TRUE(keeper->take(1));
}

// A lane of envelopes, to be damaged.
class Lane : public testing::Test {
 protected:
  void write(std::uint64_t counter, std::string_view payload) {
    wire::Nonce nonce{};
    nonce[0] = static_cast<std::byte>(counter);
    sealer_.seal(wire::EnvelopeType::message, 0, counter, 1, wire::view(payload), nonce, lane_);
    ends_.push_back(lane_.size());
  }
  std::span<std::byte> bytes() { return {lane_.data(), lane_.size()}; }
  Scan scan(bool final = false) {
    opened_.assign(lane_.view().begin(), lane_.view().end());
    return decoder_.scan({opened_, 0, 7, final, false}, 64);
  }

  wire::NodeId source_ = wire::node_id("analytics");
  wire::NodeId target_ = wire::node_id("billing");
  wire::Keyring keyring_{{wire::Key{}}};
  wire::LinkSealer sealer_{keyring_, source_, target_, 7};
  wire::LinkOpener opener_{keyring_, source_, target_};
  LaneDecoder decoder_{source_, target_, opener_};
  wire::Buffer lane_;
  Bytes opened_;  // what the last scan made of it
  std::vector<std::size_t> ends_;
};

TEST_F(Lane, every_split_decodes_equally_l_11) {
  for (std::uint64_t n = 1; n <= 3; ++n) write(n, "payload");
  const Bytes sealed(lane_.view().begin(), lane_.view().end());
  for (std::size_t size = 0; size <= lane_.size(); ++size) {
    Bytes lane = sealed;
    const std::span<std::byte> all(lane);
    const Scan first = decoder_.scan({all.first(size), 0, 7, false, false}, 64);
    const Scan second = decoder_.scan({all.subspan(first.consumed), first.consumed, 7, false, false}, 64);
    EXPECT_EQ(first.items.size() + second.items.size(), 3U) << size;
    for (const Scan* scan : {&first, &second}) {
      for (const Item& item : scan->items) EXPECT_EQ(wire::text(item.payload), "payload") << size;
    }
  }
}

TEST_F(Lane, reading_goes_on_behind_a_flipped_bit_l_16) {
  for (std::uint64_t n = 1; n <= 3; ++n) write(n, "payload");
  lane_.data()[ends_[0] + 90] ^= std::byte{1};
  const Scan found = scan();
  ASSERT_EQ(found.items.size(), 3U);
  EXPECT_EQ(found.items[1].refusal, wire::Refusal::bad_tag);
  EXPECT_EQ(found.items[1].start, ends_[0]);
  EXPECT_EQ(found.items[1].end, ends_[1]);
  EXPECT_FALSE(found.items[2].is_damage());
}

TEST_F(Lane, what_is_refused_keeps_its_bytes_whatever_its_size_l_16_l_20) {
  for (const std::size_t size : {10UL, 1000UL, 5000UL, 300'000UL}) {
    lane_.clear();
    ends_.clear();
    write(1, std::string(size, 'a'));
    write(2, std::string(size, 'b'));
    lane_.data()[90] ^= std::byte{1};
    const Scan found = scan();
    ASSERT_EQ(found.items.size(), 2U) << size;
    EXPECT_EQ(found.items[0].refusal, wire::Refusal::bad_tag) << size;
    EXPECT_TRUE(std::ranges::equal(ByteView(opened_).first(ends_[0]), lane_.view().first(ends_[0]))) << size;
    EXPECT_EQ(wire::text(found.items[1].payload), std::string(size, 'b')) << size;
  }
}

TEST_F(Lane, an_envelope_behind_one_that_lies_about_its_length_is_found_and_opened_once_l_16) {
  write(1, std::string(5000, 'a'));
  const std::size_t lie = lane_.size();
  write(2, std::string(5000, 'b'));
  lane_.shrink(lie + 88);  // headers that promise what does not follow
  write(3, std::string(5000, 'c'));
  const Scan found = decoder_.scan({bytes(), 0, 7, false, true}, 64);
  ASSERT_EQ(found.items.size(), 3U);
  EXPECT_TRUE(found.items[1].is_damage());
  EXPECT_EQ(found.items[1].start, lie);
  EXPECT_EQ(wire::text(found.items[0].payload), std::string(5000, 'a'));
  EXPECT_EQ(wire::text(found.items[2].payload), std::string(5000, 'c'));
}

TEST_F(Lane, what_is_looked_at_behind_an_incomplete_envelope_stays_sealed_l_16) {
  write(1, std::string(5000, 'a'));
  lane_.shrink(88);
  write(2, "payload");
  lane_.data()[ends_[1] - 1] ^= std::byte{1};
  const Bytes before(lane_.view().begin(), lane_.view().end());
  const Scan found = decoder_.scan({bytes(), 0, 7, false, true}, 64);
  EXPECT_EQ(found.consumed, 0U);
  EXPECT_EQ(found.needed, wire::envelope_overhead + 5000);
  EXPECT_TRUE(std::ranges::equal(bytes(), before));
}

TEST_F(Lane, a_torn_tail_of_a_finished_file_is_passed_l_17) {
  write(1, "payload");
  write(2, "payload");
  lane_.shrink(lane_.size() - 5);
  EXPECT_EQ(scan(false).items.size(), 1U);
  const Scan found = scan(true);
  ASSERT_EQ(found.items.size(), 2U);
  EXPECT_EQ(found.items[1].refusal, wire::Refusal::truncated);
  EXPECT_EQ(found.consumed, lane_.size());
}

TEST_F(Lane, an_envelope_of_another_generation_than_its_file_is_damage_l_13) {
  write(1, "payload");
  const Scan found = decoder_.scan({bytes(), 0, 8, true, false}, 64);
  ASSERT_EQ(found.items.size(), 1U);
  EXPECT_EQ(found.items[0].refusal, wire::Refusal::bad_sequence);
}

TEST(RequestBarrierTest, it_waits_for_all_requests_before_it_and_for_no_later_one_g_14) {
  RequestBarrier barrier;
  std::vector<int> done;
  const auto end = [&](RequestBarrier::Ticket ticket) {
    for (const auto& task : barrier.end("analytics", ticket)) task();
  };
  const RequestBarrier::Ticket first = barrier.begin("analytics");
  const RequestBarrier::Ticket second = barrier.begin("analytics");
  EXPECT_TRUE(barrier.wait("analytics", [&] { done.push_back(1); }));
  EXPECT_TRUE(barrier.wait("analytics", [&] { done.push_back(2); }));
  EXPECT_FALSE(barrier.wait("billing", [] {}));
  const RequestBarrier::Ticket third = barrier.begin("analytics");
  end(second);
  EXPECT_TRUE(done.empty());
  end(first);
  EXPECT_EQ(done, (std::vector{1, 2}));
  end(third);
  EXPECT_FALSE(barrier.wait("analytics", [] {}));
}

TEST(RequestBarrierTest, only_so_much_waits_of_one_sender_g_14) {
  RequestBarrier barrier;
  const RequestBarrier::Ticket ticket = barrier.begin("analytics");
  for (std::size_t one = 0; one < wire::limits::max_deferred_controls; ++one)
    EXPECT_TRUE(barrier.wait("analytics", [] {}));
  EXPECT_FALSE(barrier.wait("analytics", [] {}));
  EXPECT_EQ(barrier.end("analytics", ticket).size(), wire::limits::max_deferred_controls);
}

TEST(NodeLife, a_node_that_lost_its_lease_is_never_closed_in_order_and_a_closed_one_loses_none) {
  EXPECT_EQ(core::next_state(NodeState::leaving, NodeEvent::close), NodeState::closed);
  EXPECT_EQ(core::next_state(NodeState::closed, NodeEvent::lose), std::nullopt);
  EXPECT_EQ(core::next_state(NodeState::lost, NodeEvent::leave), std::nullopt);
  EXPECT_EQ(core::next_state(NodeState::lost, NodeEvent::close), std::nullopt);
}

TEST(NodeLife, a_lease_is_lost_in_every_state_before_the_end) {
  for (const NodeState state : {NodeState::preparing, NodeState::serving, NodeState::leaving}) {
    EXPECT_EQ(core::next_state(state, NodeEvent::lose), NodeState::lost);
  }
}

TEST(NodeLife, who_leaves_leaves_once_also_before_it_began) {
  EXPECT_EQ(core::next_state(NodeState::preparing, NodeEvent::leave), NodeState::leaving);
  EXPECT_EQ(core::next_state(NodeState::serving, NodeEvent::leave), NodeState::leaving);
  EXPECT_EQ(core::next_state(NodeState::leaving, NodeEvent::leave), std::nullopt);
}

}  // namespace
}  // namespace speed::core
