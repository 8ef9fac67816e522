// W-20: a key file that changes under a running node is taken whole, or not at all.
#include "fs/keys/key_store.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "fs/registry/registration.hpp"
#include "one_lane.hpp"
#include "speed/error.hpp"
#include "speed/log.hpp"
#include "wire/envelope/seal.hpp"

namespace speed::fs {
namespace {

wire::Key key_of_byte(unsigned char byte) {
  wire::Key key;
  key.fill(std::byte{byte});
  return key;
}

class KeySourceTest : public testing::Test {
 protected:
  void put(const std::vector<wire::Key>& keys) const {
    std::filesystem::remove(path_ + ".new");
    write_key_file(path_ + ".new", keys);
    std::filesystem::rename(path_ + ".new", path_);
  }

  test::TestRoot root_;
  const std::string path_ = root_.path + "/speed.key";
  const wire::Key old_ = read_key_file(path_).front();
  const wire::Key new_ = key_of_byte(7);
  const wire::NodeId from_ = wire::node_id("analytics");
  const wire::NodeId to_ = wire::node_id("billing");
};

TEST_F(KeySourceTest, the_keys_of_a_changed_file_are_taken_with_the_next_look_w_20) {
  KeySource source(path_);
  put({new_, old_});
  EXPECT_EQ(source.look(), "");
  EXPECT_EQ(source.keyring().now()->keys, (std::vector{new_, old_}));
}

TEST_F(KeySourceTest, a_file_that_is_not_sound_changes_nothing_w_20) {
  KeySource source(path_);
  const auto refused = [&](const std::function<void()>& spoil) {
    put({new_});
    spoil();
    EXPECT_NE(source.look(), "");
    EXPECT_EQ(source.keyring().now()->keys, std::vector{old_});
  };
  refused([&] { ASSERT_EQ(truncate(path_.c_str(), 30), 0); });
  refused([&] { ASSERT_EQ(truncate(path_.c_str(), 0), 0); });
  refused([&] { ASSERT_EQ(unlink(path_.c_str()), 0); });
  refused([&] { ASSERT_EQ(chmod(path_.c_str(), 0644), 0); });
  if (geteuid() != 0) return;  // only root can make the file of somebody else
  refused([&] { ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0); });
}

TEST_F(KeySourceTest, an_unknown_key_is_looked_for_at_once_but_not_again_and_again_w_20) {
  KeySource source(path_);
  put({old_, new_});
  EXPECT_TRUE(source.keyring().find(wire::key_id_of(new_)));
  put({old_});
  EXPECT_FALSE(source.keyring().find(wire::KeyId{}));  // within a second: the file is not read again
  EXPECT_TRUE(source.keyring().find(wire::key_id_of(new_)));
}

TEST_F(KeySourceTest, a_link_seals_with_the_new_key_at_once_and_a_retired_one_opens_nothing_w_20) {
  KeySource source(path_);
  wire::LinkSealer sealer(source.keyring(), from_, to_, 1);
  wire::LinkOpener opener(source.keyring(), from_, to_);
  const auto sealed = [&](std::uint64_t counter) {
    wire::Buffer out;
    sealer.seal(wire::EnvelopeType::message, 0, counter, 1, {}, wire::Nonce{}, out);
    return Bytes(out.view().begin(), out.view().end());
  };
  const auto header_of = [](const Bytes& envelope) {
    wire::Header header;
    EXPECT_EQ(wire::read_headers(envelope, header), wire::Refusal::ok);
    return header;
  };
  const Bytes before = sealed(1);
  EXPECT_EQ(opener.check(header_of(before), before), wire::Refusal::ok);
  put({new_, old_});
  source.look();
  const Bytes after = sealed(2);
  EXPECT_EQ(header_of(after).key_id, wire::key_id_of(new_));
  EXPECT_EQ(header_of(after).sequence, header_of(before).sequence + 1);
  EXPECT_EQ(opener.check(header_of(before), before), wire::Refusal::ok);
  put({new_});
  source.look();
  EXPECT_EQ(opener.check(header_of(before), before), wire::Refusal::unknown_key);
  EXPECT_EQ(opener.check(header_of(after), after), wire::Refusal::ok);
}

TEST_F(KeySourceTest, an_entry_is_judged_by_the_keys_of_now_w_20) {
  KeySource source(path_);
  Registry ours(root_.path, source.keyring());
  ours.prepare();
  const wire::Keyring other({new_});
  Registry theirs(root_.path, other);
  const Registration::Settings wish{"billing", 30'000, 5'000, {}, {}, "c++"};
  const auto registration = Registration::make(theirs, wish, [](const fs::Won&) {});
  EXPECT_EQ(ours.read("billing"), nullptr);
  put({old_, new_});
  source.look();
  EXPECT_NE(ours.read("billing"), nullptr);
  put({old_});
  source.look();
  EXPECT_EQ(ours.read("billing"), nullptr);
  registration->remove();
}

TEST_F(KeySourceTest, a_scan_leaves_no_cursor_behind_that_only_a_retired_key_opens_w_20) {
  test::OneLane lane;
  test::Sender sender(lane);
  sender.send("one");
  std::vector<Received> received;
  {
    const auto reader = lane.reader();
    reader->read(received, test::OneLane::most, TimePoint(0s), true);
    ASSERT_EQ(received.size(), 1U);
    reader->finish(received[0].header.sequence, false);
    lane.ring.take({new_, wire::Key{}});
    reader->read(received, test::OneLane::most, TimePoint(1s), true);
  }
  lane.ring.take({new_});
  const auto again = lane.reader(2);
  again->read(received, test::OneLane::most, TimePoint(2s), true);
  EXPECT_TRUE(received.empty());
  EXPECT_TRUE(again->counts().empty());
}

TEST_F(KeySourceTest, what_is_derived_while_keys_change_is_of_the_old_ones_or_the_new_w_20) {
  wire::Keyring ring({old_});
  const std::vector<wire::Key> of_old{wire::lane_key(old_, from_, to_)};
  const std::vector<wire::Key> of_new{wire::lane_key(new_, from_, to_)};
  std::atomic<bool> stop = false;
  std::thread changing([&] {
    for (int n = 0; !stop; ++n) ring.take({n % 2 == 0 ? new_ : old_});
  });
  const wire::LaneKeys keys = ring.lane_keys(from_, to_);
  int other = 0;
  for (int n = 0; n < 10'000; ++n) {
    const std::vector<wire::Key>& now = keys.now();
    if (now != of_old && now != of_new) ++other;
  }
  stop = true;
  changing.join();
  EXPECT_EQ(other, 0);
}

TEST_F(KeySourceTest, a_node_goes_on_with_its_keys_and_says_once_why_w_20) {
  static std::atomic<int> said = 0;
  set_log([](LogLevel, std::string_view, std::string_view text) {
    if (text.find("goes on with the keys") != std::string_view::npos) ++said;
  });
  NodeOptions options = root_.options({"analytics"});
  options.heartbeat = Seconds(0.05);
  {
    Node billing("billing", options);
    Node analytics("analytics", root_.options({"billing"}));
    billing.serve("echo", test::echo);
    ASSERT_EQ(truncate(path_.c_str(), 30), 0);
    EXPECT_TRUE(test::eventually([&] { return test::counter(billing, "key_files_refused") >= 5; }));
    EXPECT_EQ(analytics.call("billing", "echo", {{"data", 1}}).as<std::int64_t>(), 1);
    EXPECT_TRUE(test::eventually([] { return said > 0; }));
  }
  set_log({});
  EXPECT_EQ(said, 1);
}

}  // namespace
}  // namespace speed::fs
