// Encrypted and compressed payloads (M-19 to M-25, M-28), by the vectors, by cases of Wycheproof, and there and back.
#include <gtest/gtest.h>
#include <sodium.h>

#include <algorithm>
#include <numeric>

#include "message/compression.hpp"
#include "message/crypto.hpp"
#include "message/guard.hpp"
#include "message/kem.hpp"
#include "vectors.hpp"

namespace speed::message {
namespace {

using test::bytes_of;
using test::cases;
using test::Json;
using test::what;
using wire::Buffer;
using wire::MessageView;

constexpr std::int64_t now_ms = 1'700'000'000'000;

bool is_here(std::string_view algorithm) { return is_available(algorithm_of(algorithm)); }

// The keys of the vectors that this build can load; for the others it must say so.
std::shared_ptr<KeyStore> store_of(const Json& records) {
  auto store = std::make_shared<KeyStore>();
  for (const Json& record : records) {
    const auto algorithm = record["algorithm"].get<std::string>();
    if (is_here(algorithm)) {
      store->put(record["id"], {MessageKey::parse(record.dump())});
    } else {
      EXPECT_THROW(MessageKey::parse(record.dump()), NotAvailableError) << algorithm;
    }
  }
  return store;
}

Guard reader(std::shared_ptr<KeyStore> keys) {
  MessageSecurity security;
  security.keys = std::move(keys);
  return Guard(security);
}

std::string code_of(const auto& attempt) {
  try {
    attempt();
    return "OK";
  } catch (const Error& error) {
    return std::string(error.code());
  }
}

// The message asks for what only other builds have.
bool is_beyond(const MessageView& view) {
  if (!view.is_encrypted()) return false;
  try {
    return !is_here(algorithm_of(view.security().encryption->algorithm).name);
  } catch (const AlgorithmError&) {
    return false;
  }
}

TEST(Encryption, a_payload_opens_m_19_to_m_23) {
  const Guard guard = reader(store_of(cases("encryption", "keys")));
  for (const Json& item : cases("encryption", "valid")) {
    const MessageView view(bytes_of(item["hex"]));
    if (is_beyond(view)) {
      EXPECT_EQ(code_of([&] { guard.open(view, now_ms); }), "NOT_AVAILABLE") << what(item);
      continue;
    }
    const Opened opened = guard.open(view, now_ms);
    const ByteView plain = opened.plain ? opened.plain->view() : view.payload_bytes();
    EXPECT_EQ(wire::to_hex(plain), item["payload_hex"]) << what(item);
    EXPECT_EQ(opened.opened_by ? Json(*opened.opened_by) : Json(nullptr), item["opened_by"]) << what(item);
  }
}

TEST(Encryption, a_payload_that_was_altered_is_refused_by_name_m_19_to_m_24) {
  const Guard guard = reader(store_of(cases("encryption", "keys")));
  for (const Json& item : cases("encryption", "invalid")) {
    const MessageView view(bytes_of(item["hex"]));
    const std::string code = code_of([&] { guard.open(view, now_ms); });
    if (is_beyond(view) && code == "NOT_AVAILABLE") continue;
    EXPECT_EQ(code, item["error"]) << what(item);
  }
}

TEST(Encryption, x25519_secrets_are_those_published_and_zero_is_refused_m_21) {
  const Json published = test::spec_file("../tests/unit/message/wycheproof/x25519.json");
  const Bytes iv(iv_bytes);
  const Hash context{};
  const Bytes data_key(data_key_bytes, std::byte{'k'});
  for (const Json& item : published["tests"]) {
    const Algorithm& algorithm = algorithm_of("x25519-chacha20-poly1305");
    const MessageKey key = make_key({"wycheproof", &algorithm, Secret(bytes_of(item["private"]))});
    const Bytes known = bytes_of(item["public"]);
    const Secret wrapping = wrapping_key(key, Secret(bytes_of(item["shared"])), known, context);
    Bytes sealed(wrapped_key_bytes);
    seal(algorithm.cipher, wrapping.view(), iv, {}, data_key, sealed);
    const bool is_zero = item["flags"].dump().find("ZeroSharedSecret") != std::string::npos;
    if (is_zero) {
      EXPECT_THROW(unwrap(key, known, sealed, iv, context), EncryptionError) << item["comment"];
    } else {
      const Secret unwrapped = unwrap(key, known, sealed, iv, context);
      EXPECT_EQ(Bytes(unwrapped.view().begin(), unwrapped.view().end()), data_key) << item["comment"];
    }
  }
}

// Settings with one key for both sides, and what they write.
struct Both {
  explicit Both(const MessageKey& key) { security.keys = std::make_shared<KeyStore>(std::vector{key}); }

  MessageView written(const Value& payload, const Protection& asked) const {
    wire::MessageFields fields;
    fields.message_id = "018bcfe5-687b-7607-8809-0a0b0c0d0e0f";
    fields.topic = "orders.created";
    fields.published_at_ms = now_ms;
    fields.publisher_id = "billing";
    Buffer out;
    Guard(security).write(payload, fields, asked, out);
    return MessageView(Bytes(out.view().begin(), out.view().end()));
  }

  Value opened(const MessageView& view) const {
    const Opened opened = Guard(security).open(view, now_ms);
    return view.decode_plain(opened.plain ? opened.plain->view() : view.payload_bytes());
  }

  MessageSecurity security;
};

Protection encrypted(const std::string& compression = "none") {
  Protection asked;
  asked.encrypt_to = {"k"};
  asked.compression = compression;
  return asked;
}

const Value& order() {
  static const Value value = Map{{"amount", 1000}, {"card", "4111-1111"}};
  return value;
}

TEST(Encryption, what_is_encrypted_opens_to_the_same_value_m_19_to_m_25) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.signs() || !is_here(algorithm.name)) continue;
    const Both both(MessageKey::generate("k", algorithm.name));
    for (const char* const compression : {"none", "gzip", "zstd", "lz4", "snappy"}) {
      const MessageView view = both.written(order(), encrypted(compression));
      EXPECT_EQ(wire::text(view.bytes()).find("4111"), std::string_view::npos);
      EXPECT_EQ(both.opened(view), order()) << algorithm.name << " " << compression;
    }
  }
}

TEST(Encryption, what_a_platform_lacks_is_named_m_24) {
  for (const Algorithm& algorithm : algorithms()) {
    if (is_here(algorithm.name)) continue;
    EXPECT_THROW(MessageKey::generate("k", algorithm.name), NotAvailableError) << algorithm.name;
  }
}

TEST(Encryption, who_is_no_recipient_gets_a_named_error_m_21) {
  const Both writer(MessageKey::generate("k", "x25519-chacha20-poly1305"));
  const Both other(MessageKey::generate("mine", "x25519-chacha20-poly1305"));
  const MessageView view = writer.written(order(), encrypted());
  EXPECT_EQ(code_of([&] { other.opened(view); }), "NO_RECIPIENT_KEY");
  EXPECT_THROW(view.payload(), WireError);
  const Both holder_of_public_part(MessageKey::generate("k", "x25519-chacha20-poly1305").public_part());
  EXPECT_EQ(code_of([&] { holder_of_public_part.opened(view); }), "NO_RECIPIENT_KEY");
}

TEST(Encryption, two_of_one_payload_share_no_ciphertext_m_20) {
  const Both both(MessageKey::generate("k", "chacha20-poly1305"));
  const MessageView one = both.written(Bytes(64), encrypted());
  const MessageView other = both.written(Bytes(64), encrypted());
  EXPECT_FALSE(std::ranges::equal(one.payload_bytes(), other.payload_bytes()));
  EXPECT_FALSE(std::ranges::equal(one.security().encryption->iv, other.security().encryption->iv));
}

TEST(Encryption, rsa_itself_takes_446_bytes_and_not_one_more_m_22) {
  if (!is_here("rsa-oaep-4096")) return;  // that it is named is tested above
  const Both both(MessageKey::parse(cases("encryption", "keys")[3].dump()));
  Protection asked;
  asked.encrypt_to = {"rsa-oaep-4096-1"};
  asked.direct = true;
  const Value most = Bytes(446, std::byte{'x'});
  EXPECT_EQ(both.opened(both.written(most, asked)), most);
  EXPECT_THROW(both.written(Bytes(447), asked), PayloadTooLargeError);
}

TEST(Encryption, strict_refuses_what_nist_does_not_approve_on_both_sides_m_24) {
  Both both(MessageKey::generate("k", "chacha20-poly1305"));
  const MessageView view = both.written(order(), encrypted());
  both.security.fips_mode = FipsMode::strict;
  EXPECT_THROW(both.written(order(), encrypted()), WeakAlgorithmError);
  EXPECT_THROW(both.opened(view), WeakAlgorithmError);
}

TEST(Encryption, a_confidential_message_in_the_clear_is_not_written_m_28) {
  const Both both(MessageKey::generate("k", "chacha20-poly1305"));
  for (const Classification level : {Classification::confidential, Classification::restricted}) {
    Protection asked;
    asked.classification = level;
    EXPECT_THROW(both.written(order(), asked), NotEncryptedError);
    asked.encrypt_to = {"k"};
    EXPECT_EQ(both.opened(both.written(order(), asked)), order());
  }
}

TEST(Encryption, a_message_above_the_clearance_is_refused_m_28) {
  Both both(MessageKey::generate("k", "chacha20-poly1305"));
  Protection asked = encrypted();
  asked.classification = Classification::restricted;
  const MessageView view = both.written(order(), asked);
  both.security.clearance = Classification::confidential;
  EXPECT_THROW(both.opened(view), ClearanceError);
  both.security.clearance = Classification::public_;
  EXPECT_THROW(both.opened(both.written(order(), {})), ClearanceError) << "absent means internal";
}

TEST(Encryption, a_time_ahead_is_refused_with_a_policy_m_32) {
  Both both(MessageKey::generate("k", "hmac-sha256"));
  const MessageView view = both.written(order(), {});
  both.security.policy = SignaturePolicy::verify;
  both.security.trusted = {"k"};
  EXPECT_NO_THROW(Guard(both.security).open(view, now_ms - future_tolerance_ms));
  EXPECT_THROW(Guard(both.security).open(view, now_ms - future_tolerance_ms - 1), WireError);
}

TEST(Compression, a_bomb_is_refused_before_it_is_inflated_m_23) {
  const Both both(MessageKey::generate("k", "chacha20-poly1305"));
  for (const char* const encoding : {"gzip", "zstd", "lz4", "snappy"}) {
    Protection asked;
    asked.compression = encoding;
    const MessageView honest = both.written(Bytes(1 << 20), asked);
    EXPECT_EQ(both.opened(honest), Value(Bytes(1 << 20))) << encoding;
    for (const std::int64_t claim : {1L, (1L << 20) - 1, (1L << 20) + 1, (64L << 20) + 1, -1L}) {
      wire::MessageFields fields;
      fields.message_id = "m";
      fields.published_at_ms = now_ms;
      fields.content_encoding = encoding_of(encoding);
      fields.uncompressed_bytes = claim;
      Buffer out;
      wire::encode_message("application/octet-stream", honest.payload_bytes(), fields, out);
      const MessageView bomb(Bytes(out.view().begin(), out.view().end()));
      EXPECT_EQ(code_of([&] { both.opened(bomb); }), "BAD_COMPRESSION") << encoding << " " << claim;
    }
  }
}

// A frame of zstd that states its size and its window; in blocks of these bytes, of a kind.
Bytes zstd_frame(unsigned window, unsigned kind, const std::vector<std::size_t>& blocks) {
  Buffer out;
  const auto put = [&](std::uint64_t number, int bytes) {
    for (; bytes > 0; --bytes, number >>= 8U) out.append({{static_cast<std::byte>(number & 0xffU)}});
  };
  put(0xfd2fb528, 4);
  put(0x80, 1);
  put(window, 1);
  put(std::accumulate(blocks.begin(), blocks.end(), std::size_t{0}), 4);
  for (std::size_t at = 0; at < blocks.size(); ++at) {
    put((at + 1 == blocks.size() ? 1U : 0U) | kind << 1U | blocks[at] << 3U, 3);
    out.append(Bytes(kind == 0 ? blocks[at] : 1));
  }
  return {out.view().begin(), out.view().end()};
}

TEST(Compression, windows_of_zstd_and_blocks_in_them_are_bounded_m_23) {
  constexpr unsigned kibibyte = 0;
  constexpr unsigned mebibyte = 10 << 3;
  constexpr unsigned eight = 13 << 3;
  constexpr unsigned raw = 0;
  constexpr unsigned run = 1;
  const auto is_read = [](const Bytes& frame, std::int64_t size) {
    Buffer out;
    try {
      decompress("zstd", frame, size, out);
      return true;
    } catch (const CompressionError&) {
      return false;
    }
  };
  EXPECT_TRUE(is_read(zstd_frame(eight, raw, {2000}), 2000));
  EXPECT_FALSE(is_read(zstd_frame(eight + 1, raw, {2000}), 2000));
  EXPECT_FALSE(is_read(zstd_frame(17 << 3, raw, {2000}), 2000));
  EXPECT_TRUE(is_read(zstd_frame(kibibyte, raw, {1024, 976}), 2000));
  EXPECT_FALSE(is_read(zstd_frame(kibibyte, raw, {1025, 975}), 2000));
  EXPECT_TRUE(is_read(zstd_frame(mebibyte, run, {128 << 10, 1}), (128 << 10) + 1));
  EXPECT_FALSE(is_read(zstd_frame(mebibyte, run, {(128 << 10) + 1}), (128 << 10) + 1));
}

TEST(Compression, a_payload_as_large_as_any_is_read_back_m_23) {
  Bytes noise(wire::limits::max_payload_bytes);
  randombytes_buf(noise.data(), noise.size());
  for (const Bytes& payload : {Bytes(wire::limits::max_payload_bytes), noise}) {
    Buffer small;
    Buffer again;
    compress("zstd", payload, small);
    decompress("zstd", small.view(), static_cast<std::int64_t>(payload.size()), again);
    EXPECT_TRUE(std::ranges::equal(again.view(), payload));
  }
}

TEST(Security, settings_that_cannot_be_are_refused) {
  MessageSecurity security;
  security.policy = SignaturePolicy::require;
  EXPECT_THROW(Guard{security}, ConfigurationError);
  security.policy = SignaturePolicy::off;
  security.compression = "brotli";
  EXPECT_THROW(Guard{security}, CompressionError);
}

}  // namespace
}  // namespace speed::message
