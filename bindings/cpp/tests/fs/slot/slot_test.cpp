// Large payloads in slots (L-28 to L-30): the vectors, and a lane with real files.
#include "wire/envelope/slot.hpp"

#include <gtest/gtest.h>
#include <sodium.h>

#include "core/slots.hpp"
#include "one_lane.hpp"
#include "speed/error.hpp"
#include "vectors.hpp"

namespace speed {
namespace {

using test::counted;
using test::Got;
using test::Json;
using test::OneLane;
using test::read_all;
using test::Sender;
using test::texts;
using wire::SlotHead;
using wire::SlotPieces;
using Texts = std::vector<std::string>;

constexpr std::size_t piece = wire::limits::slot_piece_bytes;
constexpr std::size_t stride = SlotPieces::max_sealed_bytes;

Bytes pattern(std::size_t size) {
  Bytes payload(size);
  for (std::size_t at = 0; at < size; ++at) payload[at] = static_cast<std::byte>(at % 251);
  return payload;
}

SlotHead head_of(const Json& item, std::uint32_t number = 1) {
  return {number, item.at("payload_bytes").get<std::uint64_t>(), test::block_of<32>(item.at("key"))};
}

TEST(SlotHeads, are_written_and_read_back_l_28) {
  for (const Json& item : test::cases("slots", "heads")) {
    const wire::SlotHeadBytes data = wire::encode_slot_head(head_of(item, item.at("number")));
    EXPECT_EQ(wire::to_hex(data), item.at("hex").get<std::string>());
    const auto head = wire::decode_slot_head(data);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->payload_bytes, item.at("payload_bytes").get<std::uint64_t>());
  }
}

TEST(SlotHeads, that_break_the_rules_are_refused_l_28) {
  for (const Json& item : test::cases("slots", "invalid_heads")) {
    EXPECT_FALSE(wire::decode_slot_head(test::bytes_of(item.at("hex")))) << item;
  }
}

TEST(SlotPiecesOfAPayload, are_sealed_and_put_together_l_28) {
  for (const Json& item : test::cases("slots", "payloads")) {
    const SlotHead head = head_of(item);
    SlotPieces sealing(head, wire::Aead::Direction::seal);
    SlotPieces opening(head, wire::Aead::Direction::open);
    const Bytes payload = pattern(head.payload_bytes);
    Bytes slot(sealing.slot_bytes());
    Bytes read(payload.size());
    for (std::size_t index = 0; index < sealing.count(); ++index) {
      const SlotPieces::Place place = sealing.place(index);
      const std::span<std::byte> there = std::span(slot).subspan(place.offset, place.size);
      sealing.seal(index, payload, there);
      EXPECT_TRUE(opening.open(index, there, read));
    }
    EXPECT_EQ(slot.size(), item.at("slot_bytes").get<std::size_t>());
    Bytes hash(crypto_hash_sha256_BYTES);
    crypto_hash_sha256(wire::raw(std::span<std::byte>(hash)), wire::raw(ByteView(slot)), slot.size());
    EXPECT_EQ(wire::to_hex(hash), item.at("slot_sha256").get<std::string>());
    EXPECT_EQ(read, payload);
  }
}

TEST(SlotPiecesOfAPayload, nothing_else_passes_for_one_l_28) {
  for (const Json& item : test::cases("slots", "invalid_pieces")) {
    const SlotHead head{1, 200'000, test::block_of<32>(item.at("key"))};
    SlotPieces opening(head, wire::Aead::Direction::open);
    Bytes payload(head.payload_bytes);
    EXPECT_FALSE(opening.open(item.at("index"), test::bytes_of(item.at("hex")), payload)) << item;
  }
}

TEST(SlotChoices, waste_least_l_29) {
  for (const Json& item : test::cases("slots", "choices")) {
    std::vector<core::KnownSlot> known;
    for (const Json& slot : item.at("slots")) known.push_back({slot.at(0), slot.at(1), slot.at(2)});
    const core::SlotChoice choice = core::choose_slot(known, item.at("needs"), item.at("room"));
    EXPECT_EQ(choice.number, item.at("slot").get<std::uint32_t>()) << item;
    EXPECT_EQ(choice.file_bytes, item.at("file_bytes").get<std::uint64_t>()) << item;
    EXPECT_EQ(choice.removed, item.at("removed").get<std::vector<std::uint32_t>>()) << item;
  }
}

class Slots : public testing::Test {
 protected:
  Slots() { fs::make_directory(lane.place()); }

  std::string slot(std::uint32_t number, std::uint32_t generation = 1) const {
    return wire::child_path(lane.place(), wire::slot_name({generation, number}));
  }
  void alter(std::uint32_t number, std::size_t at) const {
    std::string bytes = test::content(slot(number));
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    test::put(slot(number), bytes);
  }
  static Texts read(fs::LaneReader& reader, bool scan = false) { return texts(read_all(reader, scan)); }

  OneLane lane;
  Sender sender{lane};
  const std::string large = std::string(2 * piece, 'a') + "the end";
};

TEST_F(Slots, a_payload_arrives_whole_and_in_its_place_l_28) {
  sender.send("before");
  EXPECT_EQ(sender.send_in_slot(large), 1U);
  sender.send("after");
  EXPECT_EQ(read(*lane.reader()), (Texts{"before", large, "after"}));
}

TEST_F(Slots, a_piece_that_is_not_there_is_waited_for_l_30) {
  const auto reader = lane.reader();
  const std::uint32_t number = sender.announce(large);
  EXPECT_EQ(read(*reader), Texts{});
  EXPECT_EQ(read(*reader, true), Texts{});
  EXPECT_EQ(reader->unfinished(), 1U);
  sender.write(number, large);
  EXPECT_EQ(read(*reader), Texts{large});
}

TEST_F(Slots, a_sender_that_died_between_two_pieces_leaves_a_torn_rest_l_30) {
  const auto reader = lane.reader();
  sender.announce(large);
  EXPECT_EQ(read(*reader, true), Texts{});
  lane.sender_lives = false;
  EXPECT_EQ(read(*reader, true), Texts{});
  EXPECT_EQ(counted(*reader, "torn_slots"), 1U);
  EXPECT_EQ(reader->unfinished(), 0U);
  EXPECT_EQ(lane.quarantined(), 0U);
}

TEST_F(Slots, of_an_altered_last_piece_nothing_is_handed_out_l_30) {
  sender.send_in_slot(large);
  alter(1, 2 * stride + 3);
  const std::string sealed = test::content(slot(1)).substr(2 * stride, 7 + 16);
  sender.send("after");
  const auto reader = lane.reader();
  EXPECT_EQ(read(*reader), Texts{"after"});
  EXPECT_EQ(counted(*reader, "damaged_bad_slot"), 1U);
  EXPECT_EQ(lane.first_kept(), sealed);
  const std::string reason = wire::quarantine_dir(lane.root.path, "billing") + "/00000001.reason";
  EXPECT_EQ(Json::parse(test::content(reason)).at("name"), "analytics 000001-01.slot");
  EXPECT_EQ(Json::parse(test::content(reason)).at("offset"), 2 * stride);
}

TEST_F(Slots, no_link_pipe_or_directory_is_read_in_a_slots_place_l_30) {
  using Make = void (*)(const std::string&);
  const std::vector<Make> makes{
      [](const std::string& path) { std::filesystem::create_symlink("/etc/passwd", path); },
      [](const std::string& path) { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); },
      [](const std::string& path) { std::filesystem::create_directory(path); },
      [](const std::string& path) {
        test::put(path + ".other", std::string(300'000, 'x'));
        std::filesystem::create_hard_link(path + ".other", path);
      },
  };
  const auto reader = lane.reader();
  for (std::size_t at = 0; at < makes.size(); ++at) {
    const std::uint32_t number = sender.send_in_slot(large);
    std::filesystem::remove(slot(number));
    makes[at](slot(number));
    EXPECT_EQ(read(*reader), Texts{});
    EXPECT_EQ(counted(*reader, "torn_slots"), at + 1);
    EXPECT_EQ(counted(*reader, "slots_refused"), at + 1);
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(slot(number))));
  }
}

TEST_F(Slots, a_slot_that_is_cut_while_it_is_read_is_no_error_l_30) {
  const auto reader = lane.reader();
  const std::uint32_t number = sender.announce(large);
  EXPECT_EQ(read(*reader), Texts{});
  std::filesystem::resize_file(slot(number), piece);
  EXPECT_EQ(read(*reader), Texts{});
  EXPECT_EQ(counted(*reader, "torn_slots"), 1U);
}

TEST_F(Slots, a_slot_is_used_again_once_its_payload_is_finished_l_29) {
  const auto reader = lane.reader();
  EXPECT_EQ(sender.send_in_slot(large), 1U);
  EXPECT_EQ(sender.send_in_slot(large), 2U);
  const std::vector<Got> got = read_all(*reader);
  EXPECT_EQ(texts(got), (Texts{large, large}));
  reader->finish(got.at(1).sequence, true);  // commits at once: the first is listed
  EXPECT_EQ(sender.send_in_slot("another" + large), 2U);
  reader->finish(got.at(0).sequence, true);
  EXPECT_EQ(sender.send_in_slot(large), 1U);
  EXPECT_EQ(read(*reader), (Texts{"another" + large, large}));
}

TEST_F(Slots, one_that_is_waited_for_is_no_repeat_for_the_next_process_l_30) {
  const std::uint32_t number = sender.announce(large);
  auto closed = lane.reader();
  EXPECT_EQ(read(*closed), Texts{});
  closed->rest();
  closed->close_cleanly();
  closed.reset();
  sender.write(number, large);
  const std::vector<Got> got = read_all(*lane.reader(2));
  EXPECT_EQ(texts(got), Texts{large});
  EXPECT_FALSE(got.at(0).redelivered);
}

TEST_F(Slots, a_reader_at_rest_goes_on_with_the_pieces_l_26) {
  const auto reader = lane.reader();
  const std::uint32_t number = sender.announce(large);
  EXPECT_EQ(read(*reader), Texts{});
  reader->rest();
  sender.write(number, large);
  EXPECT_EQ(read(*reader), Texts{large});
}

TEST_F(Slots, there_are_so_many_and_no_more_l_29) {
  const auto reader = lane.reader();
  for (std::uint32_t number = 1; number <= wire::limits::max_slots; ++number)
    EXPECT_EQ(sender.send_in_slot(large), number);
  EXPECT_EQ(sender.announce(large), 0U);
}

TEST_F(Slots, payloads_in_slots_count_for_the_window_l_29) {
  Sender other(lane, 2, {.window_bytes = 300'000});
  EXPECT_TRUE(other.writer.has_room(200'000));
  other.send_in_slot(large);
  EXPECT_FALSE(other.writer.has_room(200'000));
}

TEST_F(Slots, their_files_stay_within_the_window_l_29) {
  Sender other(lane, 1, {.window_bytes = 1 << 20});
  const auto reader = lane.reader();
  std::uintmax_t most = 0;
  for (const std::size_t size : std::initializer_list<std::size_t>{150'000, 900'000, 200'000, 400'000, 1'000'000,
                                                                   131'072, 600'000, 300'000, 900'000}) {
    ASSERT_TRUE(other.writer.has_room(size));
    ASSERT_NE(other.send_in_slot(std::string(size, 'a')), 0U);
    std::uintmax_t total = 0;
    for (const auto& entry : std::filesystem::directory_iterator(lane.place())) {
      const std::string ending = entry.path().extension();
      if (ending == ".slot" || ending == ".lane") total += entry.file_size();
    }
    most = std::max(most, total);
    for (const Got& one : read_all(*reader)) reader->finish(one.sequence, false);
  }
  EXPECT_LE(most, 1U << 20);
}

TEST_F(Slots, free_ones_make_room_for_what_goes_into_the_lane_itself_l_29) {
  Sender other(lane, 1, {.window_bytes = 300'000});
  const auto reader = lane.reader();
  other.send_in_slot(large);
  for (const Got& one : read_all(*reader)) reader->finish(one.sequence, false);
  EXPECT_TRUE(other.writer.has_room(200'000));
  other.send(std::string(200'000, 'b'));
  EXPECT_FALSE(std::filesystem::exists(slot(1)));
}

TEST_F(Slots, that_are_free_are_given_back_at_once_l_29) {
  const auto reader = lane.reader();
  sender.send_in_slot(large);
  EXPECT_FALSE(sender.writer.give_slots_back());
  for (const Got& one : read_all(*reader)) reader->finish(one.sequence, false);
  EXPECT_TRUE(sender.writer.give_slots_back());
  EXPECT_FALSE(std::filesystem::exists(slot(1)));
}

TEST_F(Slots, what_was_not_finished_comes_again_l_30) {
  {
    const auto died = lane.reader();
    sender.send_in_slot(large);
    sender.send("after");
    const std::vector<Got> got = read_all(*died);
    died->finish(got.at(1).sequence, false);
  }
  const auto successor = lane.reader(2);
  const std::vector<Got> again = read_all(*successor);
  EXPECT_EQ(texts(again), Texts{large});
  EXPECT_TRUE(again.at(0).redelivered);
  EXPECT_EQ(sender.send_in_slot(large), 2U);
}

TEST_F(Slots, those_of_an_earlier_life_are_removed_behind_it_l_30) {
  const auto reader = lane.reader();
  sender.send_in_slot(large);
  Sender next(lane, 2);
  next.send("new life");
  for (const Got& one : read_all(*reader)) reader->finish(one.sequence, false);
  EXPECT_FALSE(std::filesystem::exists(slot(1)));
}

TEST_F(Slots, an_idle_one_is_removed_by_its_sender_l_29) {
  const auto reader = lane.reader();
  sender.send_in_slot(large);
  for (const Got& one : read_all(*reader)) reader->finish(one.sequence, false);
  sender.writer.tidy_slots();
  EXPECT_TRUE(std::filesystem::exists(slot(1)));
  sender.writer.close();
  sender.writer.tidy_slots();
  EXPECT_FALSE(std::filesystem::exists(slot(1)));
  EXPECT_EQ(sender.send_in_slot(large), 1U);
}

TEST_F(Slots, none_stays_behind_a_link_that_ended_l_29) {
  const auto reader = lane.reader();
  sender.send_in_slot(large);
  for (const Got& one : read_all(*reader)) reader->finish(one.sequence, false);
  sender.writer.end();
  EXPECT_FALSE(std::filesystem::exists(slot(1)));
}

TEST_F(Slots, a_lane_that_is_put_aside_meanwhile_is_reported_l_29) {
  const std::uint32_t number = sender.announce(large);
  std::filesystem::rename(lane.place(), lane.root.path + "/aside");
  sender.writer.close();
  sender.send("in another lane");
  EXPECT_THROW(sender.write(number, large), StorageError);
  EXPECT_EQ(read(*lane.reader()), Texts{"in another lane"});
}

TEST_F(Slots, a_payload_that_cannot_be_written_is_reported_and_given_up_l_29) {
  const auto reader = lane.reader();
  const std::uint32_t number = sender.announce(large);
  test::fail(test::Call::pwrite, EIO);
  EXPECT_THROW(sender.write(number, large), StorageError);
  test::fail(test::Call::none, 0);
  EXPECT_EQ(read(*reader), Texts{});
  EXPECT_EQ(counted(*reader, "torn_slots"), 1U);
}

}  // namespace
}  // namespace speed
