// The vectors of dead letters and of deliveries (S-18, L-25).
#include <gtest/gtest.h>

#include "speed/error.hpp"
#include "vectors.hpp"
#include "wire/envelope/cursor.hpp"
#include "wire/envelope/dead_letter.hpp"

namespace speed::wire {
namespace {

using test::bytes_of;
using test::Json;
using test::vectors;
using test::what;

// Reads a letter as a file that ends where the bytes do.
Bytes payload_of(const Keyring& keyring, const NodeId& node, const Bytes& file, DeadLetter& letter) {
  std::size_t at = 0;
  LetterReader reader(keyring, node, [&](std::span<std::byte> to) {
    const std::size_t count = std::min(to.size(), file.size() - at);
    copy_to(to.data(), ByteView(file).subspan(at, count));
    at += count;
    return count;
  });
  letter = reader.letter();
  Bytes payload;
  for (Bytes piece; reader.next(piece);) append(payload, piece);
  return payload;
}

TEST(DeadLetters, are_read_and_refused_s_18) {
  const Json all = vectors("dead_letters");
  const Keyring keyring(test::keys_of(all["accepted_keys"]));
  const NodeId node = node_id(all["node"].get<std::string>());
  for (const Json& item : all["valid"]) {
    DeadLetter letter;
    EXPECT_EQ(payload_of(keyring, node, bytes_of(item["hex"]), letter), bytes_of(item["payload_hex"])) << what(item);
    EXPECT_EQ(letter.is_event, item["letter"]["type"] == "EVENT") << what(item);
    EXPECT_EQ(letter.source, item["letter"]["source"].get<std::string>()) << what(item);
    EXPECT_EQ(letter.sequence, test::number_of(item["letter"]["sequence"])) << what(item);
    EXPECT_EQ(letter.deliveries, item["letter"]["deliveries"].get<std::int64_t>()) << what(item);
    EXPECT_EQ(letter.error_message, item["letter"]["error_message"].get<std::string>()) << what(item);
    EXPECT_EQ(letter.died_at_ms, item["letter"]["died_at_ms"].get<std::int64_t>()) << what(item);
  }
  for (const Json& item : all["invalid"]) {
    DeadLetter letter;
    EXPECT_THROW(payload_of(keyring, node, bytes_of(item["hex"]), letter), WireError) << what(item);
  }
}

TEST(DeadLetters, what_is_written_is_read_s_18) {
  const Json all = vectors("dead_letters");
  const Keyring keyring(test::keys_of(all["accepted_keys"]));
  const NodeId node = node_id("billing");
  Bytes file;
  int drawn = 0;
  const auto random = [&](std::span<std::byte> bytes) {
    for (std::byte& one : bytes) one = static_cast<std::byte>(++drawn);
  };
  LetterWriter writer(keyring, node, random, [&](ByteView data) { append(file, data); });
  const Bytes payload(letter_chunk_bytes + 5, std::byte{7});
  writer.head({.source = "analytics", .error_code = "X", .payload_bytes = payload.size()});
  writer.piece(ByteView(payload).first(letter_chunk_bytes), false);
  writer.piece(ByteView(payload).subspan(letter_chunk_bytes), true);
  DeadLetter letter;
  EXPECT_EQ(payload_of(keyring, node, file, letter), payload);
  EXPECT_EQ(letter.source, "analytics");
}

TEST(Deliveries, are_read_written_and_refused_l_25) {
  const Json all = vectors("cursors");
  const Keyring keyring(test::keys_of(all["accepted_keys"]));
  const std::vector<Key> keys =
      keyring.lane_keys(node_id(all["source"].get<std::string>()), node_id(all["target"].get<std::string>()));
  for (const Json& item : all["deliveries_valid"]) {
    Deliveries expected;
    for (const Json& one : item["deliveries"]) {
      expected[test::number_of(one["sequence"])] = one["count"].get<std::uint32_t>();
    }
    EXPECT_EQ(decode_deliveries(bytes_of(item["hex"]), keys), expected) << what(item);
    EXPECT_EQ(encode_deliveries(expected, keys.front()), bytes_of(item["hex"])) << what(item);
  }
  for (const Json& item : all["deliveries_invalid"]) {
    EXPECT_THROW(decode_deliveries(bytes_of(item["hex"]), keys), WireError) << what(item);
  }
}

TEST(Letters, file_names_in_another_spelling_are_foreign) {
  EXPECT_EQ(letter_name({7, LetterState::trying}), "00000007.trying");
  EXPECT_EQ(parse_letter("00000007.retry")->number, 7U);
  EXPECT_FALSE(parse_letter("7.letter"));
  EXPECT_FALSE(parse_letter("00000000.letter"));
  EXPECT_FALSE(parse_letter("000000007.letter"));
}

}  // namespace
}  // namespace speed::wire
