// Segments, parity and reconstruction against registry_spec/vectors/segments.json (G-n).
#include <gtest/gtest.h>
#include <sodium.h>

#include <algorithm>
#include <random>

#include "segments.hpp"
#include "speed/error.hpp"

namespace speed::segment {
namespace {

using test::Json;
using test::what;

std::string hex(ByteView bytes) { return wire::to_hex(bytes); }

std::string sha256(const std::vector<Bytes>& parts) {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  for (const Bytes& part : parts) crypto_hash_sha256_update(&state, wire::raw(ByteView(part)), part.size());
  wire::Block<crypto_hash_sha256_BYTES> digest;
  crypto_hash_sha256_final(&state, wire::raw(std::span<std::byte>(digest)));
  return hex(digest);
}

TEST(Segments, the_hash_is_that_of_the_vectors_g_3) {
  for (const Json& item : test::cases("segments", "hashes")) {
    EXPECT_EQ(hex(keccak256(test::bytes_of(item["hex"]))), item["hash"]) << what(item);
  }
}

TEST(Segments, a_payload_is_cut_as_in_the_vectors_with_the_parity_of_leopard_g_4_to_g_9) {
  const auto cuts = test::cuts();
  for (const Json& item : test::cases("segments", "cut")) {
    const test::Cut& cut = cuts.at(item["name"]);
    const std::size_t data_count = item["data_segment_count"];
    const std::size_t parity_count = item["parity_segment_count"];
    ASSERT_EQ(cut.segments.size(), data_count + parity_count) << what(item);
    EXPECT_EQ(hex(keccak256(cut.payload)), item["hash"]) << what(item);
    for (std::size_t index = 0; index < parity_count; ++index) {
      EXPECT_EQ(hex(read_segment(cut.segments[data_count + index]).payload), item["parity"][index]) << what(item);
    }
    EXPECT_EQ(sha256(cut.segments), item["segments_sha256"]) << what(item);
  }
}

TEST(Segments, a_valid_segment_is_read_whatever_the_order_of_its_fields_g_1) {
  for (const Json& item : test::cases("segments", "also_read")) {
    const Bytes data = test::bytes_of(item["hex"]);
    const Segment segment = read_segment(data);
    const Json& fields = item["segment"];
    EXPECT_EQ(hex(segment.hash), fields["hash"]) << what(item);
    EXPECT_EQ(segment.data_count, fields["data_count"]) << what(item);
    EXPECT_EQ(segment.parity_count, fields["parity_count"]) << what(item);
    EXPECT_EQ(segment.index, fields["index"]) << what(item);
    EXPECT_EQ(segment.is_parity, fields["is_parity"]) << what(item);
    EXPECT_EQ(hex(segment.payload), fields["payload"]) << what(item);
  }
}

TEST(Segments, a_segment_that_breaks_a_rule_is_refused_by_the_field_that_does_g_2) {
  for (const Json& item : test::cases("segments", "invalid")) {
    try {
      read_segment(test::bytes_of(item["hex"]));
      ADD_FAILURE() << "was read: " << what(item);
    } catch (const WireError& error) {
      EXPECT_EQ(error.reason(), item["error"]) << what(item);
      EXPECT_NE(std::string(error.what()).find(": " + item["field"].get<std::string>() + ": "), std::string::npos)
          << error.what() << " " << what(item);
    }
  }
}

Limits limits_of(const Json& story) {
  Limits limits;
  const Json named = story.value("limits", Json::object());
  limits.payload_bytes = named.value("max_segmented_bytes", limits.payload_bytes);
  limits.reconstructions = named.value("max_reconstructions", limits.reconstructions);
  limits.sender_reconstructions = named.value("max_sender_reconstructions", limits.sender_reconstructions);
  limits.buffered_bytes = named.value("max_buffered_bytes", limits.buffered_bytes);
  limits.sender_buffered_bytes = named.value("max_sender_buffered_bytes", limits.sender_buffered_bytes);
  return limits;
}

TEST(Segments, a_receiver_makes_of_them_what_the_vectors_say_g_11_to_g_16) {
  const auto cuts = test::cuts();
  for (const Json& story : test::cases("segments", "arrivals")) {
    Assembler assembler(limits_of(story));
    for (const Json& arrival : story["arrivals"]) {
      const Bytes data = arrival.contains("hex") ? test::bytes_of(arrival["hex"])
                                                 : cuts.at(arrival["of"]).segments.at(arrival["slot"]);
      std::string verdict;
      std::optional<Bytes> payload;
      try {
        Outcome outcome = assembler.receive(arrival["from"], data, test::instant(arrival.value("at", 0.0)));
        verdict = name_of(outcome.verdict);
        payload = std::move(outcome.payload);
      } catch (const WireError& error) {
        verdict = error.reason();
      }
      EXPECT_EQ(verdict, arrival["verdict"]) << what(story) << " " << arrival;
      if (arrival.contains("payload")) {
        EXPECT_EQ(payload.value_or(Bytes{}), cuts.at(arrival["payload"]).payload) << what(story);
      }
    }
  }
}

Bytes random_bytes(std::size_t size, std::mt19937& random) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// What an assembler makes of these segments; nothing when they do not suffice.
std::optional<Bytes> assembled(const std::vector<const Bytes*>& segments) {
  Assembler assembler;
  std::optional<Bytes> payload;
  for (const Bytes* const segment : segments) {
    Outcome outcome = assembler.receive("a", *segment, {});
    if (outcome.payload) payload = std::move(outcome.payload);
  }
  return payload;
}

TEST(Parity, every_loss_of_a_small_shape_up_to_the_parity_count_is_recovered_g_10) {
  std::mt19937 random(7);
  constexpr std::pair<unsigned, unsigned> shapes[] = {{2, 1}, {2, 2}, {3, 2}, {3, 5}, {5, 3}, {6, 4}};
  for (const auto& [data_count, parity_count] : shapes) {
    const Bytes payload = random_bytes(64 * data_count - 20, random);
    const std::vector<Bytes> segments = test::segments_of(payload, 64, parity_count);
    for (unsigned held = 0; held < 1U << segments.size(); ++held) {
      if (static_cast<unsigned>(std::popcount(held)) != data_count) continue;
      std::vector<const Bytes*> some;
      for (std::size_t slot = 0; slot < segments.size(); ++slot) {
        if ((held >> slot & 1) != 0) some.push_back(&segments[slot]);
      }
      EXPECT_EQ(assembled(some), payload) << data_count << "+" << parity_count << " held " << held;
    }
  }
}

TEST(Parity, random_losses_of_large_shapes_are_recovered_in_any_order_g_10) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  constexpr std::pair<unsigned, unsigned> shapes[] = {{100, 13}, {200, 25}, {226, 28}, {128, 127}};
  for (const auto& [data_count, parity_count] : shapes) {
    const Bytes payload = random_bytes(128UL * data_count - random() % 128, random);
    const std::vector<Bytes> segments = test::segments_of(payload, 128, parity_count);
    for (int round = 0; round < 8; ++round) {
      std::vector<const Bytes*> some;
      for (const Bytes& segment : segments) some.push_back(&segment);
      std::shuffle(some.begin(), some.end(), random);
      some.resize(data_count);
      EXPECT_EQ(assembled(some), payload) << data_count << "+" << parity_count << " seed " << seed;
    }
  }
}

TEST(Parity, one_segment_fewer_than_needed_delivers_nothing_g_13) {
  std::mt19937 random(3);
  const std::vector<Bytes> segments = test::segments_of(random_bytes(600, random), 64, 4);
  EXPECT_EQ(assembled({&segments[1], &segments[3], &segments[5], &segments[7], &segments[9], &segments[11]}),
            std::nullopt);
}

TEST(Parity, shards_of_several_slices_are_recovered_g_10) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  const Bytes payload = random_bytes((3 << 20) - 17, random);
  const std::vector<Bytes> segments = test::segments_of(payload, 1 << 20, 2);
  EXPECT_EQ(assembled({&segments[4], &segments[1], &segments[3]}), payload) << "seed " << seed;
}

TEST(Segments, bogus_first_segments_are_held_no_further_than_the_limits_g_16) {
  Limits limits;
  limits.sender_buffered_bytes = 1 << 16;
  Assembler assembler(limits);
  Bytes payload(64);
  for (std::uint32_t number = 0; number < 100'000; ++number) {
    Segment segment{.data_count = 2, .payload = payload};
    std::memcpy(segment.hash.data(), &number, sizeof number);
    ASSERT_EQ(assembler.receive("flood", write_segment(segment), {}).verdict, Verdict::kept);
  }
  EXPECT_EQ(assembler.expire(TimePoint(saturated(limits.idle))).size(), limits.sender_reconstructions);
}

TEST(Segments, the_default_limits_are_those_of_the_contract_g_15) {
  const Limits limits;
  const Json contract = test::spec_file("limits.json");
  EXPECT_EQ(limits.payload_bytes, contract["max_segmented_bytes"]);
  EXPECT_EQ(limits.reconstructions, contract["max_reconstructions"]);
  EXPECT_EQ(limits.sender_reconstructions, contract["max_sender_reconstructions"]);
  EXPECT_EQ(limits.buffered_bytes, contract["max_buffered_bytes"]);
  EXPECT_EQ(limits.sender_buffered_bytes, contract["max_sender_buffered_bytes"]);
  EXPECT_EQ(limits.completions, contract["max_completions"]);
  EXPECT_EQ(limits.sender_completions, contract["max_sender_completions"]);
  EXPECT_EQ(limits.idle.count(), contract["reconstruction_idle_seconds"]);
  EXPECT_EQ(limits.total.count(), contract["reconstruction_seconds"]);
  EXPECT_EQ(limits.completion.count(), contract["completion_seconds"]);
}

TEST(Segments, a_hash_that_is_known_is_not_made_again_g_3) {
  const Bytes payload(1000, std::byte{7});
  const Hash known{std::byte{1}};
  unsigned count = 0;
  const auto each = [&](const Segment& one) {
    EXPECT_EQ(one.hash, known);
    ++count;
  };
  cut(MemorySource(payload), Splitter(64).shape(payload.size()), each, known);
  EXPECT_EQ(count, 18U);
}

TEST(Segments, a_size_that_cannot_be_used_is_refused_g_4) {
  EXPECT_THROW(Splitter(0, 0), ConfigurationError);
  EXPECT_THROW(Splitter(63), ConfigurationError);
  EXPECT_EQ(Splitter(1000).shape(2000).segment_size, 960U) << "the size is a maximum";
  EXPECT_THROW(Splitter(64, 1.5), ConfigurationError);
  EXPECT_EQ(Splitter(100, 0).shape(250).data_count, 3U);
  EXPECT_THROW(Splitter(64, 0).shape(255 * 64 + 1), PayloadTooLargeError);
}

TEST(Segments, a_segment_size_is_a_maximum_that_parity_cuts_down_to_a_multiple_of_64_g_4) {
  for (const Json& item : test::cases("segments", "sizes")) {
    const auto cut_at = [&] { return Splitter(item["asked"], item["parity_rate"]).shape(0).segment_size; };
    if (item.contains("used")) {
      EXPECT_EQ(cut_at(), item["used"]) << what(item);
    } else {
      EXPECT_THROW(cut_at(), ConfigurationError) << what(item);
    }
  }
}

TEST(Segments, a_lost_last_segment_that_ends_in_a_million_zeros_is_recovered_g_11) {
  constexpr std::size_t size = 1 << 21;
  Bytes payload(size + 3 + 1'000'000);
  std::fill_n(payload.begin(), size + 3, std::byte{7});
  const std::vector<Bytes> segments = test::segments_of(payload, size, 1);
  EXPECT_EQ(assembled({&segments[0], &segments[2]}), payload);
}

TEST(Segments, parity_is_given_whole_or_the_payload_is_refused_g_5) {
  const auto expect = [](double rate, std::size_t most, unsigned parity) {
    const Splitter splitter(64, rate);
    EXPECT_EQ(splitter.most_bytes(), 64 * most);
    EXPECT_EQ(splitter.shape(64 * most).parity_count, parity);
    EXPECT_THROW(splitter.shape(64 * most + 1), PayloadTooLargeError);
  };
  expect(0, 255, 0);
  expect(0.001, 254, 1);
  expect(0.125, 226, 29);
  expect(0.5, 170, 85);
  expect(1, 127, 127);
}

}  // namespace
}  // namespace speed::segment
