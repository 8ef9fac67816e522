// What others make a node hold open is bounded: lanes and links at rest (L-26). What comes without a grant (L-21).
#include <gtest/gtest.h>

#include <latch>

#include "engine/runtime.hpp"
#include "few_files.hpp"
#include "one_lane.hpp"
#include "open_files.hpp"
#include "vectors.hpp"

namespace speed {
namespace {

using engine::InboundLanes;
using engine::Runtime;
using test::counter;
using test::echo;
using test::eventually;
using test::FewFiles;
using test::OneLane;
using test::open_under;
using test::TestRoot;

constexpr std::ptrdiff_t awake = 4;  // lanes, and links, of a node that may hold few files open

class RestTest : public testing::Test {
 protected:
  NodeOptions few_files(std::vector<std::string> allow = {}) const {
    NodeOptions options = root_.options(std::move(allow));
    options.max_open_files = 1;
    return options;
  }

  std::string inbox(const std::string& name) const { return wire::inbox_dir(root_.path, name) + "/"; }

  // Lanes of `receiver` that hold files open: only a receiver opens cursors.
  std::ptrdiff_t lanes_awake(const std::string& receiver) const { return open_under(inbox(receiver), "/cursor."); }

  std::optional<wire::Cursor> cursor(const std::string& receiver, const std::string& sender) const {
    const wire::Keyring keyring(fs::read_key_file(root_.path + "/speed.key"));
    return fs::newest_cursor(fs::open_directory(wire::lane_dir(root_.path, receiver, sender)).get(),
                             keyring.lane_keys(wire::node_id(sender), wire::node_id(receiver)));
  }

  std::vector<std::unique_ptr<Node>> nodes(const std::string& family, int number, const std::string& allow = "hub") {
    std::vector<std::unique_ptr<Node>> all;
    for (int n = 0; n < number; ++n) {
      all.push_back(std::make_unique<Node>(family + "." + std::to_string(n), root_.options({allow})));
    }
    return all;
  }

  TestRoot root_;
};

TEST_F(RestTest, many_short_lived_senders_leave_few_files_open_l_26) {
  Node hub("hub", few_files({"etl.*"}));
  hub.serve("echo", echo);
  const std::size_t before = test::open_files().size();
  for (int n = 0; n < 60; ++n) {
    Node sender("etl." + std::to_string(n), root_.options());
    EXPECT_EQ(sender.call("hub", "echo", {{"data", n}}), Value(n));
  }
  EXPECT_LE(test::open_files().size(), before + 3 * (2 * awake + 1));
}

// With what a node takes of its own accord, where a process may have few files.
TEST_F(RestTest, a_process_that_may_open_few_files_serves_any_number_of_names_l_26) {
  const FewFiles few(110);
  Node hub("hub", root_.options({"etl.*"}));
  hub.serve("echo", echo);
  for (int n = 0; n < 100; ++n) {
    Node sender("etl." + std::to_string(n), root_.options());
    EXPECT_EQ(sender.call("hub", "echo", {{"data", n}}), Value(n));
  }
}

TEST_F(RestTest, a_lane_whose_sender_is_gone_is_closed_cleanly_and_opened_when_it_rings_l_26) {
  Node hub("hub", few_files({"etl.*"}));
  hub.serve("echo", echo);
  const auto call = [&](const std::string& name) {
    Node sender(name, root_.options());
    EXPECT_EQ(sender.call("hub", "echo", {{"data", 7}}), Value(7));
  };
  for (int n = 0; n < 10; ++n) call("etl." + std::to_string(n));
  EXPECT_TRUE(eventually([&] { return cursor("hub", "etl.0")->clean; }));
  call("etl.0");
  EXPECT_EQ(counter(hub, "lanes_failed"), 0);
}

TEST_F(RestTest, lanes_at_rest_are_read_when_they_ring_l_26) {
  Node hub("hub", few_files({"etl.*"}));
  hub.serve("echo", echo);
  const auto senders = nodes("etl", 12);
  for (int round = 0; round < 5; ++round) {
    for (const auto& sender : senders) EXPECT_EQ(sender->call("hub", "echo", {{"data", round}}), Value(round));
    EXPECT_LE(lanes_awake("hub"), awake + 2) << "with one that is being read, and one that is committed";
  }
}

// Who polls rings nobody.
TEST_F(RestTest, lanes_at_rest_that_do_not_ring_are_looked_at_in_turn_l_26) {
  std::atomic<int> handled = 0;
  Node hub("hub", few_files({"etl.*"}));
  hub.on_message([&](const Message&) { ++handled; });
  std::vector<std::unique_ptr<Node>> senders;
  NodeOptions silent = root_.options();
  silent.polling = true;
  for (int n = 0; n < 8; ++n) senders.push_back(std::make_unique<Node>("etl." + std::to_string(n), silent));
  for (int round = 1; round < 4; ++round) {
    for (const auto& sender : senders) sender->send("hub", round);
    EXPECT_TRUE(eventually([&] { return handled == 8 * round; }));
  }
}

TEST_F(RestTest, what_is_unfinished_in_a_lane_at_rest_is_finished_and_committed_l_26) {
  std::latch begun(1);
  std::latch release(1);
  Node hub("hub", few_files({"etl.*", "slow"}));
  hub.on_message([&](const Message& message) {
    if (message.source() != "slow") return;
    begun.count_down();
    release.wait();
  });
  Node slow("slow", root_.options());
  slow.send("hub", "wait");
  begun.wait();
  const auto senders = nodes("etl", 8);
  for (const auto& sender : senders) sender->send("hub", "other", {.ack = true});
  const std::string cursors = inbox("hub") + "slow/cursor.";
  EXPECT_TRUE(eventually([&] { return open_under(cursors) == 0; }));
  EXPECT_EQ(cursor("hub", "slow")->last_sequence, 0U);
  release.count_down();
  EXPECT_TRUE(eventually([&] { return cursor("hub", "slow")->last_sequence == wire::make_sequence(1, 1); }));
  EXPECT_TRUE(eventually([&] { return open_under(cursors) == 0; }));
}

TEST_F(RestTest, links_at_rest_go_on_in_their_order_l_26) {
  std::mutex lock;
  std::map<std::string, std::vector<Value>> seen;
  Node hub("hub", few_files());
  const auto targets = nodes("etl", 10);
  for (const auto& target : targets) {
    target->on_message([&, name = target->name()](const Message& message) {
      const std::lock_guard guard(lock);
      seen[name].push_back(message.payload());
    });
  }
  for (int round = 0; round < 4; ++round) {
    for (const auto& target : targets) hub.send(target->name(), round, {.ack = true});
    EXPECT_LE(open_under(root_.path + "/etl.", "/bell"), 10 + awake) << "their owners' and the hub's";
  }
  const std::vector<Value> all{0, 1, 2, 3};
  const std::lock_guard guard(lock);
  for (const auto& target : targets) EXPECT_EQ(seen[target->name()], all);
}

TEST_F(RestTest, the_bell_of_a_link_that_woke_again_is_watched_l_9_l_26) {
  Node hub("hub", few_files());
  const auto targets = nodes("etl", 8);
  const std::string bell = wire::bell_path(root_.path, "etl.0");
  hub.send("etl.0", 1);
  EXPECT_EQ(test::watched(bell), 2U) << "by its owner and the hub";
  for (const auto& target : targets) hub.send(target->name(), 2);
  EXPECT_EQ(test::watched(bell), 1U);
  hub.send("etl.0", 3);
  EXPECT_EQ(test::watched(bell), 2U);
}

// --- one lane ---

TEST(LaneAtRest, it_holds_nothing_open_and_goes_on_where_it_was_l_26) {
  OneLane lane;
  test::Sender sender(lane);
  sender.send("one");
  const auto reader = lane.reader();
  EXPECT_EQ(test::texts(test::read_all(*reader)), std::vector<std::string>{"one"});
  sender.send("two");
  sender.writer.close();
  reader->rest();
  EXPECT_EQ(open_under(lane.place()), 0);
  EXPECT_EQ(test::texts(test::read_all(*reader, false)), std::vector<std::string>{"two"});
}

TEST(LaneAtRest, what_was_to_be_committed_later_is_committed_first_l_15) {
  OneLane lane;
  test::Sender sender(lane);
  sender.send("one");
  const auto reader = lane.reader();
  const auto all = test::read_all(*reader);
  reader->finish(all.at(0).sequence, true);
  reader->rest();
  const fs::Fd directory = fs::open_directory(lane.place());
  EXPECT_EQ(fs::newest_cursor(directory.get(), lane.lane_keys())->last_sequence, all[0].sequence);
}

TEST(LaneAtRest, another_lane_in_its_place_is_not_taken_for_it_l_26) {
  OneLane lane;
  test::Sender sender(lane);
  sender.send("one");
  const auto reader = lane.reader();
  const auto all = test::read_all(*reader);
  reader->rest();
  std::filesystem::rename(lane.place(), lane.root.path + "/aside");
  std::filesystem::create_directory(lane.place());
  EXPECT_NO_THROW(reader->finish(all.at(0).sequence, false));
  EXPECT_EQ(test::counted(*reader, "commits_failed"), 1U);
  EXPECT_THROW(test::read_all(*reader), std::system_error);
  EXPECT_TRUE(std::filesystem::is_empty(lane.place()));
}

TEST(Inbox, it_is_listed_again_once_it_changed_l_26) {
  const OneLane lane;
  const std::string path = wire::inbox_dir(lane.root.path, "billing");
  std::filesystem::create_directory(path + "/etl");
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  fs::Inbox inbox(lane.root.path, "billing", 1, lane.ring);
  EXPECT_EQ(inbox.scan(), std::vector<std::string>{"etl"});
  EXPECT_EQ(inbox.scan(), std::nullopt);
  std::filesystem::create_directory(path + "/web");
  EXPECT_EQ(inbox.scan()->size(), 2U);
}

TEST(Inbox, it_is_listed_again_for_as_long_as_its_filesystem_may_be_late_l_22) {
  const OneLane lane;
  const std::string path = wire::inbox_dir(lane.root.path, "billing");
  std::filesystem::create_directory(path + "/etl");
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  fs::Inbox inbox(lane.root.path, "billing", 1, lane.ring);
  inbox.late = 1h;
  EXPECT_EQ(inbox.scan(), std::vector<std::string>{"etl"});
  EXPECT_EQ(inbox.scan(), std::vector<std::string>{"etl"});
  inbox.late = 0s;
  EXPECT_TRUE(inbox.scan());
  EXPECT_EQ(inbox.scan(), std::nullopt);
}

TEST(Inbox, of_more_lanes_than_may_be_listed_those_that_are_asked_for_and_the_newest_are_l_21) {
  const OneLane lane;
  const std::string path = wire::inbox_dir(lane.root.path, "billing");
  const auto now = std::filesystem::file_time_type::clock::now();
  for (int age = 0; age < 6; ++age) {
    const std::string place = path + "/" + std::string(1, static_cast<char>('a' + age));
    std::filesystem::create_directory(place);
    std::filesystem::last_write_time(place, now - std::chrono::hours(1 + age));
  }
  std::filesystem::last_write_time(path, now - std::chrono::hours(1));
  fs::Inbox inbox(lane.root.path, "billing", 1, lane.ring, false, 3);
  const auto names = [](const fs::Inbox::Names& found) { return std::set<std::string>(found.begin(), found.end()); };
  EXPECT_EQ(names(*inbox.scan()), (std::set<std::string>{"a", "b", "c"}));
  const auto asked = inbox.scan([](const std::string& name) { return name >= "e"; });
  EXPECT_EQ(names(*asked), (std::set<std::string>{"a", "e", "f"}));
}

// --- without a grant ---

class UngrantedTest : public RestTest {
 protected:
  // A receiver that grants the sender nothing, though its entry says so: what is sent to it was granted when that was
  // looked at. It has listed its lanes once: what comes now does not lie there from before.
  std::shared_ptr<Runtime> receiver() const {
    auto node = Runtime::make("receiver", root_.options({"sender", "probe"}));
    node->context.policy.deny({"sender"});
    node->start();
    node->delivery.on_message([this](const Message&) { ++handled_; });
    Node("probe", root_.options()).ping("receiver", Seconds(20));
    return node;
  }

  // A message that waits for the next life of the receiver: this one has no handler.
  void leave_a_message() const {
    Node before("receiver", root_.options({"sender"}));
    Node("sender", root_.options()).send("receiver", "early");
    before.close(Seconds(0));
  }

  // The lanes of a node that reads none itself as long as this is used.
  void with_lanes(Runtime& node, const std::function<void(InboundLanes&)>& use) const {
    fs::Inbox inbox(root_.path, node.context.name, node.context.generation, node.context.keyring());
    InboundLanes lanes(node.context, inbox, [](const std::string&) { return false; }, [](const wire::NodeId&) {});
    use(lanes);
    lanes.close();
    node.start();
    node.leave({});
  }

  mutable std::atomic<int> handled_ = 0;
};

TEST_F(UngrantedTest, a_message_without_a_grant_is_discarded_at_once_and_no_later_grant_delivers_it_l_21) {
  const auto node = receiver();
  Node sender("sender", root_.options());
  sender.send("receiver", "too early");
  EXPECT_TRUE(eventually([&] { return node->context.stats.counters()["unauthorised"] == 1; }));
  node->context.policy.allow({"sender"});
  sender.send("receiver", "in time", {.ack = true});
  EXPECT_EQ(handled_, 1);
  node->leave({});
}

TEST_F(UngrantedTest, a_request_without_a_grant_is_answered_at_once_a_6) {
  const auto node = receiver();
  Node sender("sender", root_.options());
  EXPECT_THROW(sender.call("receiver", "echo", {}, {.timeout = Seconds(20)}), AccessDeniedError);
  node->leave({});
}

TEST_F(UngrantedTest, what_lay_there_at_start_waits_for_its_grant_l_21) {
  leave_a_message();
  Node node("receiver", root_.options());
  node.on_message([this](const Message&) { ++handled_; });
  EXPECT_TRUE(eventually([&] { return node.stats().find("lanes")->as<std::int64_t>() == 1; }));
  std::this_thread::sleep_for(2 * wire::limits::full_scan);
  EXPECT_EQ(counter(node, "unauthorised"), 0);
  node.allow({"sender"});
  EXPECT_TRUE(eventually([&] { return handled_ == 1; }));
}

TEST_F(UngrantedTest, a_lane_that_was_there_waits_for_a_grant_l_21) {
  const auto node = Runtime::make("receiver", root_.options());
  for (const test::Json& item : test::cases("first_scan", "cases")) {
    AccessPolicy policy(item.at("allow").get<std::vector<std::string>>());
    policy.deny(item.at("deny").get<std::vector<std::string>>());
    core::Observers observers;
    observers.replace(item.at("observers").get<std::vector<std::string>>());
    const bool wrote = item.at("wrote");
    fs::Inbox inbox(root_.path, "receiver", node->context.generation, node->context.keyring());
    InboundLanes lanes(
        node->context, inbox,
        [&](const std::string& name) { return policy.publishes(name) || observers.cover(name) || wrote; },
        [](const wire::NodeId&) {});
    const std::string source = item.at("source");
    const std::string path = wire::lane_dir(root_.path, "receiver", source);
    if (item.at("there").get<bool>()) std::filesystem::create_directory(path);
    lanes.list(TimePoint(1000s));
    std::filesystem::create_directory(path);
    lanes.list(TimePoint(1000s));
    const bool is_opened =
        lanes.of(wire::node_id(source), test::instant(1000 + item.at("seconds").get<double>())) != nullptr;
    EXPECT_EQ(is_opened, item.at("opened").get<bool>()) << test::what(item);
    lanes.close();
    std::filesystem::remove_all(path);
  }
  node->start();
  node->leave({});
}

TEST_F(UngrantedTest, what_lay_there_at_start_waits_no_longer_than_the_grace_l_21) {
  leave_a_message();
  with_lanes(*Runtime::make("receiver", root_.options()), [](InboundLanes& lanes) {
    const wire::NodeId sender = wire::node_id("sender");
    lanes.list(TimePoint(100s));
    EXPECT_TRUE(lanes.knows(sender));
    EXPECT_EQ(lanes.of(sender, TimePoint(99s) + wire::limits::ungranted_lane_grace), nullptr);
    EXPECT_NE(lanes.of(sender, TimePoint(100s) + wire::limits::ungranted_lane_grace), nullptr);
  });
}

TEST_F(UngrantedTest, a_lane_that_came_later_waits_for_nothing_l_21) {
  with_lanes(*Runtime::make("receiver", root_.options({"sender"})), [this](InboundLanes& lanes) {
    lanes.list(TimePoint(100s));
    Node("sender", root_.options()).send("receiver", "hello");
    lanes.list(TimePoint(100s));
    EXPECT_NE(lanes.of(wire::node_id("sender"), TimePoint(100s)), nullptr);
  });
}

// --- turn by turn ---

// A sender that is in no registry.
class Guest {
 public:
  Guest(const Runtime& receiver, const std::string& name)
      : id_(wire::node_id(name)),
        writer_(receiver.context.root, name, receiver.context.name, 1,
                receiver.context.keyring().lane_keys(id_, receiver.context.id), {}),
        sealer_(receiver.context.keyring(), id_, receiver.context.id, 1) {}

  void send(const std::string& text) {
    wire::Buffer envelope;
    wire::Nonce nonce{};
    nonce[0] = static_cast<std::byte>(++counter_);
    sealer_.seal(wire::EnvelopeType::message, 0, counter_, 1, wire::view(text), nonce, envelope);
    writer_.append(envelope.view(), {envelope.view().size()});
  }

 private:
  wire::NodeId id_;
  fs::LaneWriter writer_;
  wire::LinkSealer sealer_;
  std::uint64_t counter_ = 0;
};

class TurnTest : public UngrantedTest {
 protected:
  using Guests = std::map<std::string, Guest>;

  // Guests that come after the first listing, which each send one text.
  static Guests guests(InboundLanes& lanes, const Runtime& receiver, std::size_t number) {
    lanes.list(TimePoint(100s));
    Guests all;
    for (std::size_t n = 0; n < number; ++n) {
      const std::string name = "guest." + std::to_string(n);
      all.try_emplace(name, receiver, name).first->second.send("first");
    }
    return all;
  }

  // Reads and finishes what a scan reads, as the protocol does; returns the texts.
  static std::vector<std::string> scan(InboundLanes& lanes, bool everything = false) {
    static TimePoint now(1000s);
    std::vector<std::string> texts;
    lanes.list(TimePoint(100s));
    lanes.due(TimePoint(100s), {}, everything, [&](const engine::InboundLanePtr& lane) {
      std::vector<fs::Received> received;
      lane->read(received, 100, now += 1s, true);
      for (const fs::Received& one : received) {
        texts.emplace_back(wire::text(one.payload));
        lane->finish(std::array{one.header.sequence});
      }
      received.empty() ? lanes.idle(lane, true) : lanes.used(*lane);
    });
    return texts;
  }

  // Lets the clock that stamps files pass the last change of a lane.
  void settle(const std::string& sender) const { change(sender, -std::chrono::hours(1)); }

  // A tick of the clock that stamps files, at the end of which a directory can tell whether it changed.
  static constexpr std::chrono::milliseconds still_going_on{12};

  bool cannot_tell(const std::string& sender) const {
    return !fs::is_settled(fs::modified_ns(fs::status_of(fs::open_directory(inbox("receiver") + sender).get())));
  }

  // Opens the lane and scans; on a busy machine that takes longer than a directory cannot tell, and is done again.
  void scan_while_it_cannot_tell(InboundLanes& lanes, const std::string& sender) const {
    EXPECT_TRUE(eventually([&] {
      lanes.of(wire::node_id(sender), TimePoint(100s));
      change(sender, still_going_on);
      scan(lanes, true);
      return cannot_tell(sender);
    }));
  }

  // Dates the last change of a lane so much after now.
  void change(const std::string& sender, std::filesystem::file_time_type::duration after) const {
    std::filesystem::last_write_time(inbox("receiver") + sender, std::filesystem::file_time_type::clock::now() + after);
  }

  // Which of the guests holds no cursor open; lets the clock that stamps files pass the last change of its lane.
  std::string at_rest(const Guests& guests) const {
    for (const auto& [name, guest] : guests) {
      if (open_under(inbox("receiver") + name + "/cursor.") > 0) continue;
      settle(name);
      return name;
    }
    throw std::runtime_error("all are awake");
  }
};

TEST_F(TurnTest, what_a_sender_wrote_just_before_its_end_is_read_before_its_lane_is_let_go_l_26) {
  const auto node = Runtime::make("receiver", few_files());
  with_lanes(*node, [&](InboundLanes& lanes) {
    Guests senders = guests(lanes, *node, awake + 1);
    EXPECT_EQ(scan(lanes).size(), awake + 1U);
    const std::string resting = at_rest(senders);
    scan_while_it_cannot_tell(lanes, resting);
    senders.at(resting).send("last");  // in the file that it had: nothing shows in the directory
    settle(resting);
    EXPECT_EQ(scan(lanes, true), std::vector<std::string>{"last"});
  });
}

TEST_F(TurnTest, the_lane_of_a_sender_that_is_gone_is_let_go_once_its_directory_can_tell_l_26) {
  const auto node = Runtime::make("receiver", few_files());
  with_lanes(*node, [&](InboundLanes& lanes) {
    const Guests senders = guests(lanes, *node, awake + 1);
    scan(lanes);
    const std::string resting = at_rest(senders);
    const wire::NodeId id = wire::node_id(resting);
    scan_while_it_cannot_tell(lanes, resting);
    EXPECT_NE(lanes.opened(id), nullptr);
    settle(resting);
    scan(lanes, true);
    EXPECT_EQ(lanes.opened(id), nullptr);
  });
}

TEST_F(TurnTest, the_lanes_of_senders_that_are_gone_do_not_rest_l_26) {
  const auto node = Runtime::make("receiver", few_files());
  with_lanes(*node, [&](InboundLanes& lanes) {
    const Guests senders = guests(lanes, *node, 2 * awake);
    scan(lanes);
    EXPECT_EQ(std::ranges::count_if(senders,
                                    [&](const auto& one) { return lanes.opened(wire::node_id(one.first)) != nullptr; }),
              awake);
  });
}

TEST_F(TurnTest, when_the_bell_was_too_full_those_are_read_too_that_had_their_turn_l_26) {
  const auto node = Runtime::make("receiver", few_files());
  with_lanes(*node, [&](InboundLanes& lanes) {
    constexpr std::size_t many = wire::limits::lanes_at_rest_a_scan + 8;
    Guests senders = guests(lanes, *node, many);
    EXPECT_EQ(scan(lanes).size(), wire::limits::lanes_at_rest_a_scan);
    for (auto& [name, sender] : senders) sender.send("second");
    EXPECT_EQ(scan(lanes, true).size(), 2 * many - wire::limits::lanes_at_rest_a_scan);
  });
}

}  // namespace
}  // namespace speed
