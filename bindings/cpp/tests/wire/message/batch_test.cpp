// Many payloads in one message, as bytes: the vectors of M-30, garbage, and what a Message makes of them.
#include <gtest/gtest.h>

#include <random>

#include "engine/deliver/message_state.hpp"
#include "speed/message_error.hpp"
#include "vectors.hpp"
#include "wire/message/batch.hpp"

namespace speed::wire {
namespace {

using test::bytes_of;
using test::cases;
using test::Json;
using test::value_of;
using test::what;

TEST(Batches, payloads_are_written_as_each_would_travel_alone_m_30) {
  for (const Json& item : cases("batches", "written")) {
    Batch batch;
    for (const Json& payload : item["payloads"]) batch.add(value_of(payload));
    EXPECT_EQ(to_hex(batch.view()), item["hex"]) << what(item);
  }
}

TEST(Batches, what_was_written_is_read_as_the_same_values_m_30) {
  for (const Json& item : cases("batches", "written")) {
    EXPECT_EQ(Value(decode_batch(bytes_of(item["hex"]))), value_of(item["payloads"])) << what(item);
  }
}

TEST(Batches, each_payload_is_read_with_its_own_type_m_30) {
  for (const Json& item : cases("batches", "read")) {
    const Bytes batch = bytes_of(item["hex"]);
    Json parts = Json::array();
    for (const BatchPart& part : split_batch(batch)) {
      parts.push_back({{"content_type", part.content_type}, {"type_url", part.type_url}, {"hex", to_hex(part.data)}});
    }
    EXPECT_EQ(parts, item["parts"]) << what(item);
  }
}

TEST(Batches, one_that_lies_is_refused_m_30) {
  for (const Json& item : cases("batches", "refused")) {
    try {
      split_batch(bytes_of(item["hex"]));
      ADD_FAILURE() << what(item) << " was read";
    } catch (const BatchError& error) {
      EXPECT_EQ(error.code(), "BAD_BATCH") << what(item);
    }
  }
}

TEST(Batches, payloads_for_several_topics_become_one_batch_of_each_m_30) {
  for (const Json& item : cases("batches", "topics")) {
    std::vector<std::pair<std::string, Value>> pairs;
    for (const Json& pair : item["pairs"]) pairs.emplace_back(pair[0].get<std::string>(), value_of(pair[1]));
    Json made = Json::array();
    for (const auto& [topic, batch] : batches_of(pairs)) {
      made.push_back({{"topic", topic}, {"hex", to_hex(batch.view())}});
    }
    EXPECT_EQ(made, item["batches"]) << what(item);
  }
}

TEST(Batches, the_most_payloads_are_those_of_the_contract_m_30) {
  EXPECT_EQ(max_batch_payloads, test::spec_file("algorithms.json")["limits"]["max_batch_payloads"]);
  Batch batch;
  for (std::size_t n = 0; n < max_batch_payloads; ++n) batch.add(nullptr);
  EXPECT_EQ(decode_batch(batch.view()).size(), max_batch_payloads);
  EXPECT_THROW(batch.add(nullptr), BatchError);
}

TEST(Batches, a_payload_that_is_not_of_its_type_is_named_as_elsewhere_m_9) {
  EXPECT_THROW(decode_batch(bytes_of("000000010000000a746578742f706c61696e00000001ff")), WireError);
}

TEST(Batches, one_that_was_cut_off_anywhere_is_refused_m_30) {
  for (const Json& item : cases("batches", "written")) {
    const Bytes whole = bytes_of(item["hex"]);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THROW(split_batch(ByteView(whole).first(size)), BatchError) << what(item) << " of " << size;
    }
  }
}

// Whether it is read, or refused by name; anything else ends the test.
bool is_judged(ByteView batch) {
  try {
    std::size_t bytes = 0;
    for (const BatchPart& part : split_batch(batch)) bytes += part.content_type.size() + part.data.size();
    return bytes <= batch.size() + std::string_view("application/protobuf").size() * max_batch_payloads;
  } catch (const BatchError&) {
    return true;
  }
}

TEST(Batches, garbage_is_read_or_refused_and_nothing_else_m_30) {
  std::mt19937 random(30);
  for (const Json& item : cases("batches", "written")) {
    for (int n = 0; n < 2000; ++n) {
      Bytes batch = bytes_of(item["hex"]);
      for (int changes = 0; changes < 3; ++changes) batch[random() % batch.size()] = static_cast<std::byte>(random());
      EXPECT_TRUE(is_judged(batch)) << to_hex(batch);
    }
  }
}

// A message as a node hands it out, which needs no lane for what is asked here.
Message message_of(std::string_view media_type, ByteView content, int encoding = 0) {
  MessageFields fields;
  fields.message_id = repeated_message_id({"batches"}, 1);
  fields.published_at_ms = 1;
  fields.content_encoding = encoding;
  fields.uncompressed_bytes = encoding == 0 ? 0 : 1;
  Buffer bytes;
  encode_message(media_type, content, fields, bytes);
  return engine::MessageAccess::of(std::make_shared<Message::State>(
      MessageView(Bytes(bytes.view().begin(), bytes.view().end())), nullptr, nullptr, Header{}, false));
}

TEST(Batches, a_message_hands_out_its_payloads_m_30) {
  Batch batch;
  for (const Value& payload : {Value(1), Value("two"), Value(nullptr)}) batch.add(payload);
  const Message message = message_of(batch_type, batch.view());
  EXPECT_EQ(message.payloads(), (std::vector<Value>{1, "two", nullptr}));
  EXPECT_EQ(message.payload(), Value(Bytes(batch.view().begin(), batch.view().end())));
}

TEST(Batches, the_payloads_of_another_message_are_its_one_m_30) {
  EXPECT_EQ(message_of("text/plain", view("one")).payloads(), std::vector<Value>{"one"});
}

TEST(Batches, a_message_whose_batch_lies_says_so_when_it_is_asked_m_30) {
  const Message message = message_of(batch_type, view("no batch"));
  EXPECT_THROW(message.payloads(), BatchError);
}

TEST(Batches, one_that_is_still_compressed_is_not_taken_for_a_batch_m_8) {
  constexpr int gzip = 1;
  const Message message = message_of(batch_type, bytes_of("00000000"), gzip);
  EXPECT_THROW(message.payloads(), WireError);
}

}  // namespace
}  // namespace speed::wire
