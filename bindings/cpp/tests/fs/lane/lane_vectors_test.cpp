// What every receiver makes of a lane that it finds (L-12 to L-18): the vectors, with real files.
#include <gtest/gtest.h>

#include <algorithm>

#include "fs/lane/lane_writer.hpp"
#include "fs/registry/root.hpp"
#include "fs/slot/slot_writer.hpp"
#include "one_lane.hpp"
#include "speed/error.hpp"
#include "vectors.hpp"
#include "wire/envelope/cursor.hpp"

namespace speed::fs {
namespace {

using test::Json;

class LaneVectors : public testing::Test {
 protected:
  // The files of a case where they belong; every case has a root of its own.
  struct Laid {
    explicit Laid(const wire::Keyring& ring, const Json& item) {
      prepare_root(root.path);
      Inbox::prepare(root.path, "billing");
      std::filesystem::create_directory(lane());
      put(lane(), item.at("files"));
      if (item.contains("claims")) put(wire::claims_dir(root.path), item.at("claims"));
      inbox = std::make_unique<Inbox>(root.path, "billing", item.at("generation").get<std::uint32_t>(), ring);
    }

    static void put(const std::string& directory, const Json& files) {
      for (const auto& [name, hex] : files.items()) {
        test::put(wire::child_path(directory, name), std::string(wire::text(test::bytes_of(hex))));
      }
    }

    std::string lane() const { return wire::lane_dir(root.path, "billing", "analytics"); }

    test::TestRoot root;
    std::unique_ptr<Inbox> inbox;
  };

  static std::vector<std::string> names_in(const std::string& directory) {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(directory)) names.push_back(file.path().filename());
    std::ranges::sort(names);
    return names;
  }

  static std::vector<std::string> reasons_in(const std::string& directory) {
    std::vector<std::string> reasons;
    for (const std::string& name : names_in(directory)) {
      if (!name.ends_with(".reason")) continue;
      reasons.push_back(Json::parse(test::content(wire::child_path(directory, name))).at("reason"));
    }
    return reasons;
  }

  // Reads to the end, scans twice, and finishes what is to be finished.
  static Json take(LaneReader& reader, const Json& finished) {
    Json taken = Json::array();
    for (const bool scan : {false, true, true}) {
      for (const test::Got& one : test::read_all(reader, scan)) {
        const std::string sequence = hex16(one.sequence);
        taken.push_back({{"sequence", sequence}, {"redelivered", one.redelivered}});
        if (std::ranges::find(finished, Json(sequence)) != finished.end()) reader.finish(one.sequence, false);
      }
    }
    return taken;
  }

  static std::string hex16(std::uint64_t number) {
    Bytes bytes(8);
    for (std::size_t at = 0; at < 8; ++at) bytes[at] = static_cast<std::byte>(number >> (56 - 8 * at));
    return wire::to_hex(bytes);
  }

  static wire::Cursor cursor(const Json& item) {
    wire::Cursor cursor;
    cursor.receiver_generation = item.at("receiver_generation");
    cursor.position = {item.at("sender_generation"), item.at("segment"), item.at("offset")};
    cursor.last_sequence = test::number_of(item.at("last_sequence"));
    for (const Json& one : item.at("unfinished")) {
      const wire::Position start{one.at("generation"), one.at("segment"), one.at("offset")};
      cursor.unfinished.push_back({test::number_of(one.at("sequence")), start, one.at("begun").get<bool>()});
    }
    cursor.clean = item.at("clean");
    cursor.sealed = item.at("sealed");
    return cursor;
  }

  wire::Keyring ring_{{test::block_of<32>(test::vectors("lanes").at("key"))}};
};

TEST_F(LaneVectors, a_receiver_goes_on_where_the_contract_says_l_15) {
  const wire::LaneKeys keys = ring_.lane_keys(wire::node_id("analytics"), wire::node_id("billing"));
  for (const Json& item : test::cases("lanes", "cases")) {
    SCOPED_TRACE(test::what(item));
    Laid laid(ring_, item);
    const auto reader = laid.inbox->lane("analytics");
    EXPECT_EQ(take(*reader, item.at("finished")), item.at("dispatched"));
    const std::string own = wire::cursor_name(item.at("generation").get<std::uint32_t>());
    const std::string written = test::content(wire::child_path(laid.lane(), own));
    EXPECT_EQ(wire::decode_cursor(wire::view(written), keys), cursor(item.at("cursor")));
    EXPECT_EQ(Json(names_in(laid.lane())), item.at("left"));
    EXPECT_EQ(Json(reasons_in(wire::quarantine_dir(laid.root.path, "billing"))), item.at("quarantine"));
  }
}

TEST_F(LaneVectors, a_receiver_tells_which_calls_it_may_have_run_s_8) {
  for (const Json& item : test::cases("lanes", "requests")) {
    Laid laid(ring_, item);
    const auto reader = laid.inbox->lane("analytics");
    Json requests = Json::array();
    for (const test::Got& one : test::read_all(*reader, false)) {
      requests.push_back(
          {{"sequence", hex16(one.sequence)}, {"redelivered", one.redelivered}, {"may_have_run", one.doubtful}});
    }
    EXPECT_EQ(requests, item.at("requests")) << test::what(item);
  }
}

TEST_F(LaneVectors, a_receiver_that_was_replaced_does_not_begin_l_15) {
  for (const Json& item : test::cases("lanes", "replaced")) {
    Laid laid(ring_, item);
    EXPECT_THROW(laid.inbox->lane("analytics"), LeaseLostError) << test::what(item);
  }
}

TEST(SendingVectors, a_sender_finds_the_room_that_the_contract_leaves_l_6) {
  const wire::Keyring ring{{test::block_of<32>(test::vectors("sending").at("key"))}};
  for (const Json& item : test::cases("sending", "rooms")) {
    const test::TestRoot root;
    Inbox::prepare(root.path, "billing");
    const std::string lane = wire::lane_dir(root.path, "billing", "analytics");
    std::filesystem::create_directory(lane);
    for (const auto& [name, content] : item.at("files").items()) {
      const std::string data = content.is_number() ? std::string(content.get<std::size_t>(), '\0')
                                                   : std::string(wire::text(test::bytes_of(content)));
      test::put(wire::child_path(lane, name), data);
    }
    LaneSettings settings;
    settings.window_bytes = item.at("window");
    const wire::LaneKeys keys = ring.lane_keys(wire::node_id("analytics"), wire::node_id("billing"));
    LaneWriter writer(root.path, "analytics", "billing", 3, keys, settings);
    EXPECT_EQ(writer.has_room(item.at("size")), item.at("room").get<bool>()) << test::what(item);
  }
}

// Sizes that are powers of two tell which slots are in use.
TEST(SendingVectors, a_sender_uses_the_slots_again_that_the_receiver_is_done_with_l_29) {
  const Json vectors = test::vectors("sending");
  const wire::Keyring ring{{test::block_of<32>(vectors.at("key"))}};
  const std::vector<wire::Key> keys = ring.lane_keys(wire::node_id("analytics"), wire::node_id("billing")).now();
  for (const Json& item : vectors.at("free")) {
    const test::TestRoot root;
    const Fd lane = open_directory(root.path);
    SlotWriter slots(1);
    std::uint64_t used = 0;
    for (const Json& slot : item.at("slots")) {
      const auto number = slot.at(0).get<std::uint32_t>();
      wire::SlotPieces pieces({number, std::uint64_t{256} << number, {}}, wire::Aead::Direction::seal);
      ASSERT_EQ(slots.take(lane.get(), pieces, 1 << 20), number);
      slots.use(number, test::number_of(slot.at(4)));
      slots.write(lane.get(), number, pieces, Bytes(std::size_t{256} << number), false);
      const auto usable = item.at("free").get<std::vector<std::uint32_t>>();
      if (std::ranges::find(usable, number) == usable.end()) used += pieces.slot_bytes();
    }
    slots.commit(wire::decode_cursor(test::bytes_of(item.at("cursor")), keys));
    EXPECT_EQ(slots.bytes(), used) << test::what(item);
  }
}

}  // namespace
}  // namespace speed::fs
