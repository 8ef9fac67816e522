// Values as programs use them, contents of messages (M-8 to M-10), services and what they throw (S-3, S-8, A-5).
#include "speed/value.hpp"

#include <gtest/gtest.h>

#include "core/service_table.hpp"
#include "speed/error.hpp"
#include "speed/service.hpp"
#include "wire/message/content.hpp"
#include "wire/value/buffer.hpp"
#include "wire/value/bytes.hpp"
#include "wire/value/value_codec.hpp"

namespace speed {
namespace {

TEST(Values, are_taken_as_what_they_are_and_as_nothing_else) {
  EXPECT_EQ(Value(true).as<bool>(), true);
  EXPECT_EQ(Value(-7).as<std::int64_t>(), -7);
  EXPECT_EQ(Value(7).as<std::uint64_t>(), 7U);
  EXPECT_EQ(Value(UINT64_MAX).as<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(Value(7).as<double>(), 7.0);
  EXPECT_EQ(Value(Bytes{std::byte{1}}).as<Bytes>().size(), 1U);
  EXPECT_EQ(Value(Array{Value(1)}).as<Array>().size(), 1U);
  EXPECT_EQ(Value(Map{{"a", 1}}).as<Map>().size(), 1U);
  EXPECT_EQ(Value(Instant{}).as<Instant>(), Instant{});
  EXPECT_EQ(Value(Column::of(std::vector<double>{1})).as<Column>().rows(), 1U);
  EXPECT_THROW(Value(-1).as<std::uint64_t>(), InvalidArgumentsError);
  EXPECT_THROW(Value("1").as<std::int64_t>(), InvalidArgumentsError);
  EXPECT_THROW(Value(1.0).as<std::int64_t>(), InvalidArgumentsError);
  EXPECT_THROW(Value().as<bool>(), InvalidArgumentsError);
}

Bytes counted(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t at = 0; at < size; ++at) bytes[at] = static_cast<std::byte>(at * 7);
  return bytes;
}

TEST(Values, lent_bytes_travel_as_bytes_do) {
  const Bytes own = counted(100'000);
  const Value lent = LentBytes{own};
  EXPECT_EQ(wire::pack(lent), wire::pack(Value(own)));
  EXPECT_EQ(wire::media_type_of(lent), wire::media_type_of(Value(own)));
  EXPECT_EQ(lent.as<Bytes>(), own);
  EXPECT_EQ(lent.kind(), "bytes");
}

TEST(Values, only_large_bytes_are_lent_and_only_to_whoever_says_who_keeps_them) {
  const Bytes large = counted(100'000);
  const auto payload = std::make_shared<const Bytes>(wire::pack(Value(Map{{"large", large}, {"small", counted(9)}})));
  const Map copied = wire::unpack_map(*payload);
  EXPECT_NE(copied["large"].get_if<Bytes>(), nullptr);
  const Map lent = wire::unpack_map(*payload, "payload", payload);
  EXPECT_NE(lent["small"].get_if<Bytes>(), nullptr);
  const auto* const bytes = lent["large"].get_if<LentBytes>();
  ASSERT_NE(bytes, nullptr);
  EXPECT_GE(bytes->bytes.data(), payload->data());
  EXPECT_LE(bytes->bytes.data() + bytes->bytes.size(), payload->data() + payload->size());
  EXPECT_EQ(lent["large"].as<Bytes>(), large);
}

TEST(Values, lent_bytes_outlive_who_else_held_their_payload) {
  auto payload = std::make_shared<const Bytes>(wire::pack(Value(counted(100'000))));
  const Value lent = wire::unpack(*payload, "payload", 0, payload);
  payload.reset();
  EXPECT_EQ(lent.as<Bytes>(), counted(100'000));
}

// Above 16 members equal keys are found by hash: a peer must not make reading quadratic.
TEST(Values, of_equal_keys_the_last_one_counts_in_small_maps_and_in_large_ones) {
  for (const int others : {1, 40}) {
    std::vector<Member> pairs{{"a", 1}, {7, 2}, {UINT64_MAX, 3}};
    for (int n = 100; n < 100 + others; ++n) pairs.push_back({n, n});
    pairs.push_back({"a", 4});
    pairs.push_back({7, 5});
    pairs.push_back({UINT64_MAX, 6});
    const Map map = Map::from_pairs(std::move(pairs));
    EXPECT_EQ(map.size(), static_cast<std::size_t>(3 + others));
    EXPECT_EQ(map.find("a")->as<int64_t>(), 4);
    EXPECT_EQ(map.begin()[1].value, Value(5));
    EXPECT_EQ(map.begin()[2].value, Value(6));
  }
}

// --- contents of messages ---

std::string refusal(std::string_view media_type, std::string_view content) {
  try {
    wire::decode_content(media_type, wire::view(content));
  } catch (const WireError& error) {
    return std::string(error.reason());
  }
  return "accepted";
}

TEST(Contents, that_are_not_what_their_type_says_are_refused_m_10) {
  EXPECT_EQ(refusal("application/json", "{"), "BAD_MESSAGE");
  EXPECT_EQ(refusal("application/msgpack", "\xc1"), "BAD_MESSAGE");
  EXPECT_EQ(refusal("text/plain", "\xff"), "BAD_MESSAGE");
  EXPECT_EQ(refusal("application/octet-stream", "\xff"), "accepted");
  EXPECT_EQ(refusal("application/json", R"({"a": [1, -2, 3.5, "x", null, true, 18446744073709551615]})"), "accepted");
}

TEST(Contents, text_that_is_not_utf8_is_refused_by_the_writer_m_10) {
  wire::Buffer out;
  EXPECT_THROW(wire::encode_content(Value("\xff"), out), UnserialisableError);
}

TEST(Contents, every_number_of_a_type_has_its_name_m_8) {
  const std::vector<std::string> types{"application/octet-stream", "application/protobuf", "application/json",
                                       "application/avro", "unknown/4"};
  const std::vector<std::string> encodings{"none", "gzip", "snappy", "zstd", "lz4"};
  for (int number = 0; number < 5; ++number) {
    EXPECT_EQ(wire::content_type_text(number, "own"), types[static_cast<std::size_t>(number)]);
    EXPECT_EQ(wire::content_encoding_text(number, "own"), encodings[static_cast<std::size_t>(number)]);
  }
  EXPECT_EQ(wire::content_encoding_text(99, "own"), wire::content_type_text(99, "own"));
}

// --- services ---

class Throwing : public Service {
 public:
  Response invoke(const Request& request) override {
    const auto what = request.get<std::string>("what");
    if (what == "arguments") throw InvalidArgumentsError("amount must be positive", Map{{"argument", "amount"}});
    if (what == "failure") throw ExecutionFailedError("no such customer", Map{{"customer", 7}});
    if (what == "timeout") throw CallTimeoutError("too late");
    if (what == "number") throw 7;  // NOLINT(hicpp-exception-baseclass): what a program may do all the same
    throw std::runtime_error("");
  }
};

TEST(Services, whatever_they_throw_is_an_answer_s_8) {
  core::ServiceTable services;
  EXPECT_THROW(services.add("none", nullptr, {}), ConfigurationError);
  services.add("throwing", std::make_shared<Throwing>(), std::vector<std::string>{"analytics"});
  const auto invoke = [&](const char* what, const char* caller = "analytics") {
    Request request;
    request.service = "throwing";
    request.caller = caller;
    request.arguments = Map{{"what", what}};
    const auto found = services.find(request.service, request.caller);
    std::string thrown;
    return found.service == nullptr ? *found.refusal : core::ServiceTable::run(*found.service, request, thrown);
  };
  EXPECT_EQ(invoke("arguments").error_code, "INVALID_ARGUMENTS");
  EXPECT_EQ(invoke("failure").details.find("customer")->as<std::int64_t>(), 7);
  EXPECT_EQ(invoke("timeout").error_code, "EXECUTION_FAILED");
  EXPECT_EQ(invoke("number").error_message, "the service threw what is no std::exception");
  EXPECT_EQ(invoke("other").error_code, "EXECUTION_FAILED");
  EXPECT_EQ(invoke("other", "stranger").error_code, "ACCESS_DENIED");
}

// --- batches ---

Request batch(const Column& column) {
  Request request;
  request.service = "same";
  request.arguments = Map{{"a", column}};
  return request;
}

TEST(Batches, of_every_kind_go_through_a_service_of_rows_c_6) {
  const ServiceFunction same = by_row([](const Request& request) { return Response(*request.arguments.find("a")); });
  for (const Column& column : {Column::of(std::vector<std::int64_t>{1, 2}), Column::of(std::vector<double>{1.5}),
                               Column::of(std::vector<std::optional<bool>>{true, {}}),
                               Column::of(std::vector<std::optional<std::string>>{{}, "x"}),
                               Column::timestamps({7, {}}), Column::binary({"x", {}})}) {
    EXPECT_EQ(same(batch(column)).result.as<Column>(), column);
  }
}

TEST(Batches, an_error_that_a_row_answers_names_the_row_c_7) {
  for (const char* code : {"INVALID_ARGUMENTS", "EXECUTION_FAILED"}) {
    const ServiceFunction refusing = by_row([&](const Request&) { return Response::error(code, "no", {}); });
    try {
      refusing(batch(Column::of(std::vector<double>{1})));
      FAIL();
    } catch (const CallError& error) {
      EXPECT_STREQ(error.what(), "row 0: no");
      EXPECT_EQ(error.code(), code);
    }
  }
}

TEST(Batches, a_null_that_a_row_reads_as_a_number_names_the_row_c_7) {
  const ServiceFunction doubled = by_row([](const Request& request) { return Response(2 * request.get<double>("a")); });
  try {
    doubled(batch(Column::of(std::vector<std::optional<double>>{1.0, std::nullopt})));
    FAIL();
  } catch (const InvalidArgumentsError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("row 1: ")) << error.what();
    EXPECT_EQ(*error.details().find("row"), Value(1));
  }
}

}  // namespace
}  // namespace speed
