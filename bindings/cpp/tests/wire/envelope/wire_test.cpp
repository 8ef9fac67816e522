// The vectors of registry_spec: each valid case is read with its meaning and written with the same bytes, each invalid
// one is refused with the stated code.
#include <gtest/gtest.h>

#include <bit>

#include "speed/error.hpp"
#include "vectors.hpp"
#include "wire/envelope/cursor.hpp"
#include "wire/envelope/entry.hpp"
#include "wire/envelope/keyring.hpp"
#include "wire/envelope/seal.hpp"
#include "wire/value/control.hpp"
#include "wire/value/spc.hpp"

namespace speed::wire {
namespace {

using test::bytes_of;
using test::cases;
using test::Json;
using test::number_of;
using test::vectors;
using test::what;

// The wire code with which `read` refuses; empty if it accepts.
template <class Read>
std::string refusal(Read read) {
  try {
    read();
    return "";
  } catch (const WireError& error) {
    return std::string(error.reason());
  }
}

struct LaneFacts {
  Json vectors;
  Keyring keyring{test::keys_of(vectors.at("accepted_keys"))};
  NodeId source = node_id(vectors.at("source").get<std::string>());
  NodeId target = node_id(vectors.at("target").get<std::string>());
};

// As a lane reader does: headers, then ids, then the tag (W-5, W-12).
Refusal open_envelope(LaneFacts& lane, ByteView envelope, Header& header, Bytes& payload) {
  if (const Refusal refusal = read_headers(envelope, header); refusal != Refusal::ok) return refusal;
  if (header.source != lane.source) return Refusal::wrong_source;
  if (header.target != lane.target) return Refusal::wrong_target;
  if (envelope.size() != envelope_overhead + header.payload_bytes) return Refusal::truncated;
  Bytes opened(envelope.begin(), envelope.end());
  const Refusal refusal = LinkOpener(lane.keyring, lane.source, lane.target).open(header, opened);
  const std::span<std::byte> found = payload_in(opened);
  payload.assign(found.begin(), found.end());
  return refusal;
}

TEST(Names, node_names_and_ids_follow_w_1_and_w_3) {
  for (const Json& item : cases("names", "valid_names")) {
    const auto name = item["name"].get<std::string>();
    EXPECT_TRUE(is_node_name(name)) << name;
    EXPECT_EQ(to_hex(node_id(name)), item["node_id"].get<std::string>()) << name;
  }
  for (const Json& item : cases("names", "invalid_names")) {
    EXPECT_FALSE(is_node_name(item["name"].get<std::string>())) << what(item);
  }
}

TEST(Names, topics_patterns_and_grants_follow_w_2_and_a_2) {
  const Json all = vectors("names");
  const auto check = [&](const char* list, bool (*rule)(std::string_view), bool expected) {
    for (const Json& item : all[list]) {
      const auto text = item.is_string() ? item.get<std::string>() : item.at("name").get<std::string>();
      EXPECT_EQ(rule(text), expected) << list << " " << text;
    }
  };
  check("valid_topics", is_topic, true);
  check("invalid_topics", is_topic, false);
  check("valid_grants", is_grant, true);
  check("invalid_grants", is_grant, false);
  check("valid_topic_patterns", is_topic_pattern, true);
  check("invalid_topic_patterns", is_topic_pattern, false);
  for (const Json& item : all["matching"]) {
    EXPECT_EQ(matches(item["pattern"].get<std::string>(), item["name"].get<std::string>()), item["matches"].get<bool>())
        << what(item);
  }
}

Json parsed(const std::string& kind, const std::string& file) {
  if (kind == "segment" || kind == "slot") {
    const auto found = kind == "slot" ? parse_slot(file) : parse_lane_file(file);
    return found ? Json{found->generation, found->number} : Json(nullptr);
  }
  if (kind == "claim") {
    const auto found = parse_claim(file);
    return found ? Json{found->first, found->second} : Json(nullptr);
  }
  if (kind == "entry") {
    const auto found = parse_entry_file(file);
    return found ? Json(*found) : Json(nullptr);
  }
  const auto found = kind == "cursor" ? parse_cursor(file) : kind == "start" ? parse_start(file) : parse_fence(file);
  return found ? Json(*found) : Json(nullptr);
}

TEST(Names, file_names_in_another_spelling_are_foreign_l_1) {
  for (const Json& item : cases("names", "files")) {
    EXPECT_EQ(parsed(item["kind"].get<std::string>(), item["file"].get<std::string>()), item["parsed"]) << item;
  }
}

TEST(Keys, key_files_are_read_and_refused_w_14) {
  for (const Json& item : cases("keys", "valid")) {
    EXPECT_EQ(parse_key_file(item["text"].get<std::string>()), test::keys_of(item["keys"])) << what(item);
  }
  for (const Json& item : cases("keys", "invalid")) {
    EXPECT_THROW(parse_key_file(item["text"].get<std::string>()), KeyFileError) << what(item);
  }
}

TEST(Keys, derived_keys_are_those_of_w_9_to_w_11) {
  for (const Json& item : cases("keys", "derived")) {
    const Key key = test::block_of<32>(item["key"]);
    const NodeId source = node_id(item["source"].get<std::string>());
    const NodeId target = node_id(item["target"].get<std::string>());
    EXPECT_EQ(to_hex(key_id_of(key)), item["key_id"].get<std::string>());
    EXPECT_EQ(to_hex(Keyring({key}).registry_keys()[0]), item["registry_key"].get<std::string>());
    EXPECT_EQ(to_hex(link_key(key, source, target, item["generation"].get<std::uint32_t>(),
                              item["target_life"].get<std::uint32_t>())),
              item["link_key"].get<std::string>());
    EXPECT_EQ(to_hex(lane_key(key, source, target)), item["lane_key"].get<std::string>());
  }
}

TEST(Envelopes, valid_ones_open_and_seal_to_the_same_bytes_w_4_w_7) {
  LaneFacts lane{vectors("envelopes")};
  for (const Json& item : lane.vectors["valid"]) {
    Header header;
    Bytes payload;
    ASSERT_EQ(open_envelope(lane, bytes_of(item["envelope"]), header, payload), Refusal::ok) << what(item);
    EXPECT_EQ(static_cast<int>(header.type), item["type"].get<int>()) << what(item);
    EXPECT_EQ(header.flags, item["flags"].get<int>()) << what(item);
    EXPECT_EQ(header.sequence, number_of(item["sequence"])) << what(item);
    EXPECT_EQ(header.timestamp_ms, item["timestamp_ms"].get<std::uint64_t>()) << what(item);
    EXPECT_EQ(payload, bytes_of(item["payload"])) << what(item);

    const Keyring sealing({test::block_of<32>(item["key"])});
    Buffer sealed;
    LinkSealer(sealing, lane.source, lane.target, generation_of(header.sequence))
        .seal(header.type, header.flags, counter_of(header.sequence), header.timestamp_ms, payload,
              test::block_of<12>(item["nonce"]), sealed);
    EXPECT_EQ(to_hex(sealed.view()), item["envelope"].get<std::string>()) << what(item);
  }
}

TEST(Envelopes, invalid_ones_are_refused_with_their_code_w_5) {
  LaneFacts lane{vectors("envelopes")};
  for (const Json& item : lane.vectors["invalid"]) {
    Header header;
    Bytes payload;
    EXPECT_EQ(code_of(open_envelope(lane, bytes_of(item["envelope"]), header, payload)),
              item["error"].get<std::string>())
        << what(item);
  }
}

std::string padded(const Json& item) {
  std::string content(text(ByteView(bytes_of(item["content"]))));
  content.resize(std::max(content.size(), item["bytes"].get<std::size_t>()), ' ');
  return content;
}

TEST(Entries, valid_ones_are_read_and_survive_writing_r_2) {
  const Json all = vectors("entries");
  const Keyring keyring(test::keys_of(all["accepted_keys"]));
  for (const Json& item : all["valid"]) {
    const Entry entry = decode_entry(padded(item), keyring.registry_keys());
    EXPECT_EQ(decode_entry(encode_entry(entry, keyring.registry_keys()[0]), keyring.registry_keys()), entry)
        << what(item);
  }
}

TEST(Entries, invalid_ones_are_refused_r_2_r_3) {
  const Json all = vectors("entries");
  const Keyring keyring(test::keys_of(all["accepted_keys"]));
  for (const Json& item : all["invalid"]) {
    EXPECT_EQ(refusal([&] { decode_entry(padded(item), keyring.registry_keys()); }), "BAD_ENTRY") << what(item);
  }
}

TEST(Entries, the_most_specific_pattern_says_who_may_write_a_3_a_4) {
  for (const Json& item : test::cases("entries", "senders")) {
    Entry entry;
    item["allow"].get_to(entry.allow);
    item["deny"].get_to(entry.deny);
    EXPECT_EQ(grants(entry, item["sender"].get<std::string>()), item["granted"].get<bool>()) << what(item);
  }
}

TEST(Entries, an_entry_says_who_may_look_a_7) {
  for (const Json& item : test::cases("observers", "askers")) {
    Entry entry;
    item["allow"].get_to(entry.allow);
    item["deny"].get_to(entry.deny);
    item["identities"].get_to(entry.identities);
    item["observers"].get_to(entry.observers);
    const auto asker = item["asker"].get<std::string>();
    EXPECT_EQ(grants(entry, asker) || observed_by(entry, asker), item["looks"].get<bool>()) << what(item);
    EXPECT_EQ(grants(entry, asker), item["writes"].get<bool>()) << what(item);
  }
}

Cursor cursor_of(const Json& fields) {
  Cursor cursor;
  cursor.receiver_generation = fields["receiver_generation"].get<std::uint32_t>();
  cursor.position = {fields["sender_generation"].get<std::uint32_t>(), fields["segment"].get<std::uint32_t>(),
                     fields["offset"].get<std::uint64_t>()};
  cursor.last_sequence = number_of(fields["last_sequence"]);
  cursor.clean = fields["clean"].get<bool>();
  cursor.sealed = fields["sealed"].get<bool>();
  for (const Json& one : fields["unfinished"]) {
    cursor.unfinished.push_back({number_of(one["sequence"]),
                                 {one["generation"].get<std::uint32_t>(), one["segment"].get<std::uint32_t>(),
                                  one["offset"].get<std::uint64_t>()},
                                 one["begun"].get<bool>()});
  }
  return cursor;
}

TEST(Cursors, are_read_and_written_with_the_same_bytes_l_14) {
  LaneFacts lane{vectors("cursors")};
  const std::vector<Key> keys = lane.keyring.lane_keys(lane.source, lane.target);
  for (const Json& item : lane.vectors["cursors_valid"]) {
    const Bytes data = bytes_of(item["hex"]);
    const Cursor cursor = decode_cursor(data, keys);
    EXPECT_EQ(cursor, cursor_of(item["cursor"])) << what(item);
    if (item.contains("only_read")) continue;
    EXPECT_EQ(encode_cursor(cursor, keys[0]), data) << what(item);
  }
  for (const Json& item : lane.vectors["cursors_invalid"]) {
    EXPECT_EQ(refusal([&] { decode_cursor(bytes_of(item["hex"]), keys); }), "BAD_CURSOR") << what(item);
  }
}

TEST(Fences, are_read_and_written_with_the_same_bytes_l_18) {
  LaneFacts lane{vectors("cursors")};
  const std::vector<Key> keys = lane.keyring.lane_keys(lane.source, lane.target);
  for (const Json& item : lane.vectors["fences_valid"]) {
    const Json& fields = item["fence"];
    const Fence fence{fields["new_generation"].get<std::uint32_t>(),
                      {fields["old_generation"].get<std::uint32_t>(), fields["segment"].get<std::uint32_t>()},
                      fields["size"].get<std::uint64_t>()};
    EXPECT_EQ(decode_fence(bytes_of(item["hex"]), keys), fence) << what(item);
    EXPECT_EQ(encode_fence(fence, keys[0]), bytes_of(item["hex"])) << what(item);
  }
  for (const Json& item : lane.vectors["fences_invalid"]) {
    EXPECT_EQ(refusal([&] { decode_fence(bytes_of(item["hex"]), keys); }), "BAD_FENCE") << what(item);
  }
}

bool same(const Value& one, const Value& other) {
  const auto* a = one.get_if<double>();
  const auto* b = other.get_if<double>();
  if (a != nullptr && b != nullptr) return std::bit_cast<std::uint64_t>(*a) == std::bit_cast<std::uint64_t>(*b);
  return one == other;
}

TEST(Values, are_read_and_written_as_msgpack_w_15) {
  for (const Json& item : cases("values", "valid")) {
    EXPECT_TRUE(same(unpack(bytes_of(item["hex"])), test::value_of(item["value"]))) << what(item);
    EXPECT_EQ(to_hex(pack(test::value_of(item["value"]))), item["hex"].get<std::string>()) << what(item);
  }
  for (const Json& item : cases("values", "also_read")) {
    EXPECT_TRUE(same(unpack(bytes_of(item["hex"])), test::value_of(item["value"]))) << what(item);
  }
}

TEST(Values, what_is_no_value_is_refused_w_16) {
  for (const Json& item : cases("values", "invalid")) {
    EXPECT_EQ(refusal([&] { unpack(bytes_of(item["hex"])); }), "BAD_PAYLOAD") << what(item);
  }
}

TEST(Values, a_part_without_representation_is_named_by_its_path_w_17) {
  const Value value = Map{{"x", Array{1, Map{{"y", std::string("\xff")}}}}};
  try {
    pack(value, "arguments");
    FAIL() << "text that is not UTF-8 was written";
  } catch (const UnserialisableError& error) {
    EXPECT_NE(std::string(error.what()).find("arguments.x[1].y"), std::string::npos) << error.what();
  }
}

void decode(const std::string& kind, ByteView payload) {
  if (kind == "request") {
    decode_arguments(payload, decode_head(payload));
  } else if (kind == "response") {
    decode_response(payload);
  } else {
    decode_control(payload);
  }
}

TEST(Payloads, are_accepted_and_refused_s_1_s_2_s_11) {
  const Json all = vectors("payloads");
  for (const Json& item : all["valid"]) {
    const Bytes payload = bytes_of(item["hex"]);
    EXPECT_EQ(refusal([&] { decode(item["kind"].get<std::string>(), payload); }), "") << what(item);
    EXPECT_EQ(unpack(payload), test::value_of(item["fields"])) << what(item);
  }
  for (const Json& item : all["also_read"]) {
    EXPECT_EQ(refusal([&] { decode(item["kind"].get<std::string>(), bytes_of(item["hex"])); }), "") << what(item);
  }
  for (const Json& item : all["invalid"]) {
    EXPECT_EQ(refusal([&] { decode(item["kind"].get<std::string>(), bytes_of(item["hex"])); }), "BAD_PAYLOAD")
        << what(item);
    if (item["kind"] != "request") continue;
    const auto id = id_at_front(bytes_of(item["hex"]));
    EXPECT_EQ(id ? Json(*id) : Json(nullptr), item["answered"]) << what(item);
  }
}

TEST(Payloads, an_error_is_an_answer_whatever_it_looks_like_s_3) {
  const auto written = [](std::string_view code, const std::string& text, const Map& details) {
    Buffer out;
    encode_error("7.1", code, text, details, out);
    return decode_response(out.view());
  };
  EXPECT_EQ(written("", "why", {}).error_code, "INTERNAL_ERROR");
  EXPECT_EQ(written("X", std::string("\xff"), {}).error_message, "?");
  const WireResponse large = written("X", "why", {{"a", Bytes(limits::max_details_bytes)}});
  EXPECT_TRUE(large.details.empty());
  EXPECT_NE(large.error_message.find("left out"), std::string::npos);
  const WireResponse odd = written("X", "why", {{"a", std::string("\xff")}});
  EXPECT_TRUE(odd.details.empty());
  std::string text;
  for (int n = 0; n < 3000; ++n) text += "\xc3\xa9";
  EXPECT_EQ(written("X", text, {}).error_message.size(), 2 * limits::max_error_characters);
  EXPECT_EQ(written("X", "why", {{"a", 1}}).details, (Map{{"a", 1}}));
}

TEST(Payloads, a_value_of_too_many_items_is_neither_read_nor_written_w_16) {
  Bytes many(limits::max_value_items + 6, std::byte{0xc0});
  many[0] = std::byte{0xdd};
  store(many.data() + 1, static_cast<std::uint32_t>(limits::max_value_items + 1));
  EXPECT_EQ(refusal([&] { unpack(many); }), "BAD_PAYLOAD");
  EXPECT_THROW(pack(Value(Array(limits::max_value_items + 1))), UnserialisableError);
}

TEST(Payloads, answers_to_discovery_are_checked_s_12) {
  EXPECT_EQ(refusal([] { checked_answer("SERVICES", Value(7)); }), "BAD_PAYLOAD");
  EXPECT_EQ(refusal([] { checked_answer("SERVICES", Map{{"services", Array{1}}}); }), "BAD_PAYLOAD");
  EXPECT_EQ(refusal([] { checked_answer("INFO", Map{}); }), "BAD_PAYLOAD");
  EXPECT_EQ(refusal([] { checked_answer("STATS", Map{{"counters", 1}}); }), "BAD_PAYLOAD");
  EXPECT_EQ(refusal([] { checked_answer("SERVICES", Map{{"services", Array{"a"}}}); }), "");
}

TEST(Payloads, a_large_control_payload_is_refused_unread_s_11) {
  const Bytes large(limits::max_control_bytes + 1);
  EXPECT_EQ(refusal([&] { decode_control(large); }), "BAD_PAYLOAD");
}

}  // namespace
}  // namespace speed::wire
