// What was received in segments survives the process, tells nothing, and never does harm (G-14).
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <fstream>
#include <random>

#include "fabric.hpp"
#include "fs/store/segment_store.hpp"
#include "segments.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {
namespace {

using segment::Segment;

constexpr std::size_t segment_size = 3 * (32 << 10) + 64;  // some blocks and a bit
constexpr WallTime begun(100s);
constexpr WallTime received(101s);

wire::Key counting_key(std::size_t first) {
  wire::Key key;
  for (std::size_t at = 0; at < key.size(); ++at) key[at] = static_cast<std::byte>(first + at);
  return key;
}

class SegmentStoreTest : public testing::Test {
 protected:
  SegmentStoreTest() {
    std::filesystem::create_directory(root_.path + "/billing");
    std::mt19937 random(3);
    payload_.resize(7 * segment_size - 1000);
    for (std::byte& byte : payload_) byte = static_cast<std::byte>(random());
    payload_.resize(payload_.size() + 500);
    written_ = test::segments_of(payload_, segment_size, 2);
    head_.key = {"analytics", 1, segment(0).hash};
    head_.data_count = segment(0).data_count;
    head_.parity_count = segment(0).parity_count;
    head_.begun = begun;
    open();
  }

  void open(std::vector<wire::Key> keys = {counting_key(0)}) {
    store_.reset();
    keyring_ = std::make_unique<wire::Keyring>(std::move(keys));
    store_ = std::make_unique<SegmentStore>(root_.path, "billing", *keyring_, false);
  }
  Segment segment(std::size_t slot) const { return segment::read_segment(written_.at(slot)); }
  void keep(const std::vector<std::size_t>& slots) {
    for (const std::size_t slot : slots) store_->put(head_, segment(slot), received);
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& file : std::filesystem::directory_iterator(wire::segments_dir(root_.path, "billing"))) {
      found.push_back(file.path());
    }
    return found;
  }
  std::string index() const { return wire::segments_dir(root_.path, "billing") + "/index.sqlite"; }

  test::TestRoot root_;
  Bytes payload_;
  std::vector<Bytes> written_;
  Listed head_;
  std::unique_ptr<wire::Keyring> keyring_;
  std::unique_ptr<SegmentStore> store_;
};

TEST_F(SegmentStoreTest, a_payload_is_put_together_by_the_next_process_from_enough_segments) {
  for (const std::set<std::size_t>& lost : std::vector<std::set<std::size_t>>{{}, {0}, {6}, {2, 6}, {0, 1}}) {
    std::vector<std::size_t> slots;
    for (std::size_t slot = written_.size(); slot-- > 0;) {
      if (!lost.contains(slot)) slots.push_back(slot);
    }
    keep(slots);
    open();
    ASSERT_EQ(store_->load().payloads.size(), 1U);
    const auto shards = store_->shards(head_.key);
    ASSERT_EQ(segment::rebuild(*shards, head_.key.hash), payload_.size());
    Bytes room;
    for (unsigned slot = 0; slot < head_.data_count; ++slot) {
      const ByteView expected = ByteView(payload_)
                                    .subspan(slot * segment_size)
                                    .first(std::min(segment_size, payload_.size() - slot * segment_size));
      EXPECT_TRUE(std::ranges::equal(shards->read(slot, 0, expected.size(), room), expected)) << slot;
      EXPECT_TRUE(std::ranges::equal(shards->read(slot, 33'000, 70'000, room), expected.subspan(33'000, 37'000)));
    }
    store_->remove({head_.key});
  }
}

TEST_F(SegmentStoreTest, saving_a_segment_twice_changes_nothing) {
  keep({1, 1});
  open();
  const auto contents = store_->load();
  ASSERT_EQ(contents.payloads.size(), 1U);
  EXPECT_EQ(contents.payloads[0].begun, begun);
  ASSERT_EQ(contents.payloads[0].places.size(), 1U);
  EXPECT_EQ(contents.payloads[0].places[0].slot, 1U);
  EXPECT_EQ(contents.payloads[0].places[0].at, received);
}

TEST_F(SegmentStoreTest, a_delivery_is_remembered_and_its_segments_are_gone) {
  keep({0, 1, 2});
  store_->complete({head_.key, WallTime(102s)}, {});
  open();
  const auto contents = store_->load();
  EXPECT_TRUE(contents.payloads.empty());
  ASSERT_EQ(contents.completions.size(), 1U);
  EXPECT_EQ(contents.completions[0].key, head_.key);
  EXPECT_EQ(contents.completions[0].at, WallTime(102s));
  for (const auto& file : files()) EXPECT_NE(file.extension(), ".shards");
  store_->forget({head_.key});
  open();
  EXPECT_TRUE(store_->load().completions.empty());
}

TEST_F(SegmentStoreTest, neither_hash_nor_sender_nor_bytes_lie_on_the_disk) {
  keep({0, 1});
  store_->complete({{"somebody", 1, {}}, WallTime(5s)}, {});
  store_->close();
  for (const auto& path : files()) {
    std::ifstream file(path, std::ios::binary);
    const std::string content = std::string(std::istreambuf_iterator<char>(file), {}) + path.filename().string();
    const auto lies_there = [&](std::string_view told) { return content.find(told) != std::string::npos; };
    EXPECT_FALSE(lies_there("analytics") || lies_there("somebody")) << path;
    EXPECT_FALSE(lies_there(wire::text(head_.key.hash)) || lies_there(wire::to_hex(head_.key.hash))) << path;
    EXPECT_FALSE(lies_there(wire::text(ByteView(payload_).first(16)))) << path;
    EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms(077), std::filesystem::perms::none);
  }
}

TEST_F(SegmentStoreTest, a_segment_that_was_changed_is_not_believed) {
  keep({0, 1, 2, 3, 4, 5, 6});
  for (const auto& path : files()) {
    if (path.extension() != ".shards") continue;
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(100) << "XY";
  }
  const auto shards = store_->shards(head_.key);
  EXPECT_THROW(segment::rebuild(*shards, head_.key.hash), SegmentStoreError);
}

TEST_F(SegmentStoreTest, a_damaged_store_is_put_aside_and_an_empty_one_begun) {
  const auto run = [&](const char* sql) {
    sqlite3* database = nullptr;
    sqlite3_open(index().c_str(), &database);
    EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(database);
  };
  const std::vector<std::function<void()>> damages = {
      [&] { std::ofstream(index(), std::ios::binary) << std::string(5000, 'x'); },
      [&] { run("PRAGMA user_version=9"); }, [&] { run("UPDATE payload SET head=x'00'"); }};
  for (const auto& damage : damages) {
    keep({0, 1});
    store_->close();
    damage();
    open();
    EXPECT_TRUE(store_->load().payloads.empty());
    EXPECT_TRUE(std::filesystem::exists(index() + ".damaged"));
    keep({0, 1});
    open();
    EXPECT_EQ(store_->load().payloads.size(), 1U);
  }
}

TEST_F(SegmentStoreTest, a_store_in_use_by_another_is_refused_and_usable_afterwards) {
  keep({0});
  SegmentStore other(root_.path, "billing", *keyring_, false);
  try {
    other.load();
    ADD_FAILURE() << "was opened";
  } catch (const StoreDamagedError& error) {
    ADD_FAILURE() << "taken for damaged: " << error.what();
  } catch (const SegmentStoreError&) {  // as it should be
  }
  store_->close();
  EXPECT_EQ(other.load().payloads.size(), 1U);
}

TEST_F(SegmentStoreTest, a_store_of_an_old_key_is_read_while_the_key_is_accepted_and_put_aside_after_w_14) {
  keep({0, 1});
  open({counting_key(1), counting_key(0)});
  EXPECT_EQ(store_->load().payloads.size(), 1U);
  open({counting_key(1)});
  EXPECT_TRUE(store_->load().payloads.empty());
}

}  // namespace
}  // namespace speed::fs
