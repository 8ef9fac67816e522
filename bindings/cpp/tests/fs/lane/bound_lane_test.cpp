// Bound links as files of a lane: read, tampered with, put where they do not belong (I-4, I-5).
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "one_lane.hpp"
#include "speed/error.hpp"

namespace speed::fs {
namespace {

using test::OneLane;

class BoundLaneTest : public testing::Test {
 protected:
  // Sends messages that are bound in a generation; the name of what opens them.
  std::string send(const std::vector<std::string>& texts, std::uint32_t generation = 1) {
    const auto own = std::make_shared<const wire::NodeIdentity>(read_identity(lane_.root.identity("analytics")));
    const wire::NodeIdentity to = read_identity(lane_.root.identity("billing"));
    const auto bond =
        std::make_shared<const wire::Bond>(wire::Bond{own, {to.signing(), to.exchange(), to.renewed().front()}, {}});
    wire::LinkSealer sealer(lane_.ring, wire::node_id("analytics"), wire::node_id("billing"), generation);
    sealer.seal_for(0, bond);
    LaneWriter writer(lane_.root.path, "analytics", "billing", generation, lane_.lane_keys(), {});
    std::uint64_t counter = 0;
    for (const std::string& text : texts) {
      wire::Buffer envelope;
      wire::Nonce nonce{};
      nonce[0] = static_cast<std::byte>(++counter);
      sealer.seal(wire::EnvelopeType::message, 0, counter, 1, wire::view(text), nonce, envelope);
      writer.append(envelope.view(), {envelope.size()}, sealer.opening());
    }
    return sealer.opening()->filename;
  }

  std::unique_ptr<LaneReader> reader(const std::string& whose = "billing", std::uint32_t generation = 1) {
    source_ = std::make_unique<IdentitySource>(lane_.root.identity(whose));
    inbox_ = std::make_unique<Inbox>(lane_.root.path, "billing", generation, lane_.ring);
    inbox_->identity = source_.get();
    return inbox_->lane("analytics");
  }

  static std::vector<std::string> texts(LaneReader& reader) {
    std::vector<std::string> found;
    for (const test::Got& one : test::read_all(reader)) {
      found.push_back(one.text);
      reader.finish(one.sequence, false);
    }
    return found;
  }

  std::size_t openings() const {
    std::size_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(lane_.place())) {
      found += entry.path().extension() == ".opening" ? 1 : 0;
    }
    return found;
  }

  std::string path_of(const std::string& filename) const { return wire::child_path(lane_.place(), filename); }

  using Texts = std::vector<std::string>;
  OneLane lane_;
  std::unique_ptr<IdentitySource> source_;
  std::unique_ptr<Inbox> inbox_;
};

TEST_F(BoundLaneTest, the_receiver_reads_what_was_bound_and_knows_whose_it_is_i_5) {
  const std::string name = send({"one", "two"});
  const auto lane = reader();
  EXPECT_EQ(texts(*lane), (Texts{"one", "two"}));
  const wire::KeyId key = wire::parse_opening(name)->key_id;
  EXPECT_EQ(lane->fingerprint(key), wire::to_hex(read_identity(lane_.root.identity("analytics")).fingerprint()));
  EXPECT_EQ(lane->fingerprint(wire::KeyId{}), "");
}

TEST_F(BoundLaneTest, nobody_else_reads_it_i_4) {
  send({"one"});
  EXPECT_EQ(texts(*reader("another")), Texts{});
  EXPECT_EQ(lane_.quarantined(), 1U);
}

TEST_F(BoundLaneTest, an_opening_is_left_again_where_the_lane_was_removed_i_4) {
  send({"one"});
  std::filesystem::remove_all(lane_.place());
  send({"two"}, 2);
  EXPECT_EQ(texts(*reader()), Texts{"two"});
}

TEST_F(BoundLaneTest, an_opening_goes_with_the_files_of_its_generation_i_5) {
  const std::string first = send({"one"}, 1);
  const std::string second = send({"two"}, 2);
  const auto lane = reader();
  EXPECT_EQ(texts(*lane), (Texts{"one", "two"}));
  EXPECT_FALSE(std::filesystem::exists(path_of(first)));
  EXPECT_TRUE(std::filesystem::exists(path_of(second)));
}

TEST_F(BoundLaneTest, an_opening_that_was_tampered_with_opens_nothing_and_harms_nobody_i_5) {
  using Tamper = std::function<void(const std::string& path)>;
  const std::vector<Tamper> ways{
      [](const std::string& path) { std::filesystem::remove(path); },
      [](const std::string& path) { std::filesystem::resize_file(path, 0); },
      [](const std::string& path) { std::filesystem::resize_file(path, std::uint64_t{1} << 40); },
      [](const std::string& path) { std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).put('x'); },
      [](const std::string& path) { std::filesystem::create_hard_link(path, path + ".copy"); },
      [](const std::string& path) {
        std::filesystem::remove(path);
        ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
      },
      [](const std::string& path) {
        std::filesystem::rename(path, path + ".elsewhere");
        std::filesystem::create_symlink(path + ".elsewhere", path);
      },
  };
  for (const Tamper& tamper : ways) {
    std::filesystem::remove_all(lane_.place());
    tamper(path_of(send({"one"})));
    EXPECT_EQ(texts(*reader()), Texts{}) << &tamper - ways.data();
  }
}

TEST_F(BoundLaneTest, an_opening_of_another_generation_or_name_opens_nothing_i_5) {
  const std::string first = send({"one"}, 1);
  const std::string second = send({"two"}, 2);
  std::filesystem::copy_file(path_of(first), path_of(second), std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(texts(*reader()), Texts{"one"});
}

TEST_F(BoundLaneTest, what_was_sealed_for_a_renewed_key_opens_until_that_is_dropped_i_5) {
  send({"one"});
  const std::string file = lane_.root.identity("billing");
  const std::string before = test::content(file);
  const std::string renewed = "exchange " + wire::to_base64(wire::Key{std::byte{7}}) + "\n";
  std::string kept = before;
  test::TestRoot::put_identity(file, wire::NodeIdentity::parse(kept.insert(kept.find("exchange "), renewed)));
  EXPECT_EQ(texts(*reader()), Texts{"one"});
  std::filesystem::remove_all(lane_.place());
  std::string dropped = before;
  const std::size_t at = dropped.find("exchange ");
  test::TestRoot::put_identity(file, wire::NodeIdentity::parse(before));
  send({"two"});
  dropped.replace(at, dropped.find('\n', at) + 1 - at, renewed);
  test::TestRoot::put_identity(file, wire::NodeIdentity::parse(dropped));
  EXPECT_EQ(texts(*reader()), Texts{});
}

TEST_F(BoundLaneTest, an_identity_file_is_taken_again_but_for_another_seed_i_2) {
  const std::string file = lane_.root.identity("billing");
  IdentitySource source(file);
  const std::string renewed = "exchange " + wire::to_base64(wire::Key{std::byte{7}}) + "\n";
  std::string text = test::content(file);
  text.insert(text.find("exchange "), renewed);
  test::TestRoot::put_identity(file, wire::NodeIdentity::parse(text));
  EXPECT_EQ(source.look(), "");
  EXPECT_EQ(source.changes(), 1U);
  EXPECT_EQ(source.now()->renewed().size(), 2U);
  std::filesystem::copy_file(lane_.root.identity("another"), file, std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(source.look(), "");
  EXPECT_EQ(source.changes(), 1U);
  ASSERT_EQ(chmod(file.c_str(), 0640), 0);
  EXPECT_NE(source.look().find("chmod 600"), std::string::npos);
}

TEST_F(BoundLaneTest, names_that_were_met_are_kept_on_disk_i_7) {
  const std::string file = lane_.root.identity("billing");
  const std::string fingerprint = wire::to_hex(read_identity(lane_.root.identity("analytics")).fingerprint());
  const wire::KnownIdentity known{fingerprint, 7, true};
  EXPECT_TRUE(KnownIdentities(file).remember("analytics", known));
  EXPECT_EQ(KnownIdentities(file).of("analytics"), known);
  EXPECT_EQ(KnownIdentities(file).of("other"), std::nullopt);
  std::ofstream(wire::known_path(file)) << "nonsense";
  EXPECT_THROW(KnownIdentities{file}, KeyFileError);
}

}  // namespace
}  // namespace speed::fs
