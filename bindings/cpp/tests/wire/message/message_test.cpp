// The vectors of registry_spec/messages.md (M-n).
#include <gtest/gtest.h>

#include "speed/error.hpp"
#include "vectors.hpp"
#include "wire/message/content.hpp"
#include "wire/message/message.hpp"
#include "wire/message/traceparent.hpp"

namespace speed::wire {
namespace {

using test::bytes_of;
using test::cases;
using test::Json;
using test::vectors;
using test::what;

Json optional_text(const auto& text) { return text ? Json(*text) : Json(nullptr); }

// What a message says, in the terms of the vectors.
Json meaning(const MessageView& message) {
  Json found{{"topic", message.topic()},
             {"namespace", message.name_space()},
             {"message_id", message.message_id()},
             {"published_at_ms", message.published_at_ms()},
             {"priority", message.priority()},
             {"ttl_seconds", message.ttl_seconds()},
             {"content_type", message.content_type()},
             {"content_encoding", message.content_encoding()},
             {"payload_hex", to_hex(message.payload_bytes())}};
  found["correlation_id"] = optional_text(message.correlation_id());
  found["causality_parent"] = optional_text(message.causality_parent());
  found["traceparent"] = optional_text(message.traceparent());
  found["publisher_id"] = optional_text(message.publisher_id());
  if (!message.type_url().empty()) found["type_url"] = message.type_url();
  if (!message.labels().empty()) found["labels"] = message.labels();
  if (!message.baggage().empty()) found["baggage"] = message.baggage();
  for (const auto& [key, bytes] : message.extensions()) found["extensions_hex"][key] = to_hex(bytes);
  return found;
}

TEST(Messages, valid_ones_are_read_with_their_meaning_m_1_to_m_12) {
  for (const Json& item : cases("messages", "valid")) {
    const MessageView message(bytes_of(item["hex"]));
    const Json found = meaning(message);
    for (const auto& [key, expected] : item["expected"].items()) {
      EXPECT_EQ(found.value(key, Json(nullptr)), expected) << what(item) << " " << key;
    }
    EXPECT_EQ(Bytes(message.bytes().begin(), message.bytes().end()), bytes_of(item["hex"])) << what(item);
  }
}

TEST(Messages, invalid_ones_are_refused_and_the_field_is_named_m_4_m_5) {
  for (const Json& item : cases("messages", "invalid")) {
    try {
      const MessageView message(bytes_of(item["hex"]));
      ADD_FAILURE() << what(item) << " was accepted";
    } catch (const WireError& error) {
      EXPECT_EQ(error.reason(), "BAD_MESSAGE") << what(item);
      EXPECT_NE(std::string(error.what()).find(item["field"].get<std::string>()), std::string::npos)
          << what(item) << ": " << error.what();
    }
  }
}

// The fields of a case as a writer takes them.
MessageFields fields_of(const Json& item) {
  MessageFields fields;
  fields.message_id = item.at("message_id");
  fields.topic = item.at("topic");
  fields.name_space = item.at("namespace");
  fields.published_at_ms = item.at("published_at_ms");
  const auto text = [&](const char* name) {
    return item.contains(name) ? std::optional(item.at(name).get<std::string>()) : std::nullopt;
  };
  if (item.contains("priority")) fields.priority = item.at("priority").get<int>();
  if (item.contains("ttl_seconds")) fields.ttl_seconds = item.at("ttl_seconds").get<std::int64_t>();
  fields.correlation_id = text("correlation_id");
  fields.causality_parent = text("causality_parent");
  fields.publisher_id = text("publisher_id");
  fields.traceparent = text("traceparent");
  if (item.contains("labels")) item.at("labels").get_to(fields.labels);
  if (item.contains("baggage")) item.at("baggage").get_to(fields.baggage);
  if (item.contains("extensions_hex")) {
    for (const auto& [key, hex] : item.at("extensions_hex").items()) fields.extensions[key] = bytes_of(hex);
  }
  return fields;
}

TEST(Messages, are_written_with_the_stated_bytes_m_2_m_6_m_10) {
  for (const Json& item : cases("messages", "written")) {
    Buffer out;
    encode_message(test::value_of(item.at("value")), fields_of(item.at("fields")), out);
    EXPECT_EQ(to_hex(out.view()), item.at("hex").get<std::string>()) << what(item);
  }
}

TEST(Messages, with_a_wrong_field_are_not_written_and_it_is_named_m_5) {
  for (const Json& item : cases("messages", "not_written")) {
    try {
      Buffer out;
      encode_message(Value(), fields_of(item.at("fields")), out);
      ADD_FAILURE() << what(item) << " was written";
    } catch (const WireError& error) {
      EXPECT_NE(std::string(error.what()).find(item.at("field").get<std::string>()), std::string::npos) << what(item);
    }
  }
}

TEST(Messages, ids_are_made_of_time_and_random_bytes_m_13) {
  for (const Json& item : cases("messages", "message_ids")) {
    const Bytes random = bytes_of(item["random_hex"]);
    Block<10> tail;
    std::copy(random.begin() + 6, random.end(), tail.begin());
    EXPECT_EQ(new_message_id(item["unix_ms"].get<std::uint64_t>(), tail), item["message_id"].get<std::string>());
  }
}

TEST(Messages, ids_of_work_that_is_done_again_are_the_same_m_13) {
  for (const Json& item : cases("messages", "repeated_ids")) {
    const auto names = item["names"].get<std::vector<std::string>>();
    EXPECT_EQ(repeated_message_id(names, item["number"].get<std::uint64_t>()), item["message_id"].get<std::string>());
  }
  EXPECT_THROW(repeated_message_id({"work"}, std::uint64_t{1} << 48), WireError);
}

TEST(Messages, refused_text_leaves_no_trace_on_stderr_m_4) {
  const Bytes topic_that_is_not_utf8 = bytes_of(
      "0a03"
      "1201ff");
  testing::internal::CaptureStderr();
  EXPECT_THROW(MessageView{topic_that_is_not_utf8}, WireError);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Messages, a_json_payload_is_strict_and_its_depth_bounded_m_10) {
  const auto decoded = [](std::string_view json) { return decode_content("application/json", view(json)); };
  EXPECT_EQ(decoded(R"({"a": [1, null]})"), (Value(Map{{"a", Array{1, nullptr}}})));
  using namespace std::string_view_literals;
  for (const std::string_view broken : {""sv, "1 2"sv, "[1"sv, "1\0"sv,
                                        "\xef\xbb\xbf"
                                        "1"sv,
                                        "\"\xff\""sv}) {
    EXPECT_THROW(decoded(broken), WireError);
  }
  EXPECT_THROW(decoded(std::string(1 << 20, '[')), WireError);
}

TEST(Messages, json_of_the_vectors_is_judged_as_everywhere_m_10) {
  for (const Json& item : cases("messages", "json_payloads", "valid")) {
    EXPECT_NO_THROW(decode_content("application/json", bytes_of(item["hex"]))) << what(item);
  }
  for (const Json& item : cases("messages", "json_payloads", "invalid")) {
    EXPECT_THROW(decode_content("application/json", bytes_of(item["hex"])), WireError) << what(item);
  }
}

TEST(Messages, what_is_written_is_read_back_m_2_m_10) {
  MessageFields fields;
  fields.message_id = "01890000-0000-7000-8000-000000000000";
  fields.published_at_ms = 1'700'000'000'000;
  fields.priority = 7;
  fields.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  fields.labels = {{"region", "eu"}};
  fields.extensions = {{"x-a", {std::byte{1}}}};
  const std::vector<Value> payloads{"text", Bytes{std::byte{0}, std::byte{255}}, Map{{"a", Array{1, nullptr, 2.5}}}, 7};
  for (const Value& payload : payloads) {
    Buffer out;
    encode_message(payload, fields, out);
    const MessageView message(Bytes(out.view().begin(), out.view().end()));
    EXPECT_EQ(message.payload(), payload);
    EXPECT_EQ(message.priority(), 7);
    EXPECT_EQ(message.traceparent(), fields.traceparent);
    EXPECT_EQ(message.labels(), fields.labels);
    EXPECT_EQ(message.extensions(), fields.extensions);
  }
}

TEST(Messages, expire_at_their_time_to_live_and_not_before_m_7) {
  MessageFields fields;
  fields.message_id = "1";
  fields.published_at_ms = 1000;
  fields.ttl_seconds = 2;
  Buffer out;
  encode_message("x", fields, out);
  const MessageView message(Bytes(out.view().begin(), out.view().end()));
  EXPECT_FALSE(message.is_expired(2999));
  EXPECT_TRUE(message.is_expired(3000));
}

TEST(Messages, ids_are_uuid_version_7_m_13) {
  for (const Json& item : cases("messages", "message_ids")) {
    const Bytes random = bytes_of(item["random_hex"]);
    Block<10> last;
    std::copy_n(random.begin() + 6, last.size(), last.begin());
    EXPECT_EQ(new_message_id(item["unix_ms"].get<std::uint64_t>(), last), item["message_id"].get<std::string>());
  }
}

TEST(Messages, traceparents_are_parsed_strictly_m_11) {
  for (const Json& text : cases("messages", "traceparents", "valid")) {
    EXPECT_TRUE(parse_traceparent(text.get<std::string>())) << text;
  }
  for (const Json& text : cases("messages", "traceparents", "invalid")) {
    EXPECT_FALSE(parse_traceparent(text.get<std::string>())) << text;
  }
}

}  // namespace
}  // namespace speed::wire
