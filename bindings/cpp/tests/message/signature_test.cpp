// Signatures and the keys that make them (M-16 to M-18, M-26), by the vectors and by cases of Wycheproof.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "message/guard.hpp"
#include "message/key.hpp"
#include "message/signature.hpp"
#include "vectors.hpp"
#include "wire/message/message_parts.hpp"

namespace speed::message {
namespace {

using test::bytes_of;
using test::cases;
using test::Json;
using test::what;

TrustedKeys trusted() {
  TrustedKeys keys;
  for (const Json& record : cases("signatures", "trusted")) {
    const MessageKey key = MessageKey::parse(record.dump());
    keys.emplace(key.id(), key);
  }
  return keys;
}

// The code of the refusal, or OK.
std::string verdict(const auto& attempt) {
  try {
    attempt();
    return "OK";
  } catch (const Error& error) {
    return std::string(error.code());
  }
}

TEST(Signatures, one_that_holds_is_accepted_and_covers_the_exact_bytes_m_16_m_17) {
  const TrustedKeys keys = trusted();
  for (const Json& item : cases("signatures", "valid")) {
    const wire::MessageView view(bytes_of(item["hex"]));
    const auto key = verify(view, keys, SignaturePolicy::require, FipsMode::off);
    ASSERT_TRUE(key) << what(item);
    EXPECT_EQ(key->id(), item["signed_by"]) << what(item);
    EXPECT_EQ(wire::signing_input(view.bytes()), bytes_of(item["input_hex"])) << what(item);
  }
}

TEST(Signatures, one_that_does_not_hold_is_refused_by_name_m_16_to_m_18) {
  const TrustedKeys keys = trusted();
  for (const Json& item : cases("signatures", "invalid")) {
    const wire::MessageView view(bytes_of(item["hex"]));
    const auto attempt = [&] { verify(view, keys, SignaturePolicy::require, FipsMode::off); };
    EXPECT_EQ(verdict(attempt), item["error"]) << what(item);
    EXPECT_EQ(verify(view, keys, SignaturePolicy::off, FipsMode::off), std::nullopt) << what(item);
  }
}

TEST(Guards, a_refused_algorithm_is_named_whatever_the_policy_m_24) {
  MessageSecurity verifying;
  verifying.policy = SignaturePolicy::verify;
  verifying.trusted = {"publishers"};
  verifying.keys->put("publishers", {MessageKey::generate("ed-1", "ed25519")});
  for (const MessageSecurity& settings : {MessageSecurity(), verifying}) {
    const Guard guard(settings);
    for (const Json& item : cases("signatures", "refused_algorithms")) {
      const wire::MessageView view(bytes_of(item["hex"]));
      EXPECT_EQ(verdict([&] { guard.open(view, view.published_at_ms()); }), item["error"]) << what(item);
    }
  }
}

TEST(Signatures, a_public_key_that_proves_nothing_is_refused_m_26) {
  for (const Json& record : cases("signatures", "refused_keys")) {
    EXPECT_THROW(MessageKey::parse(record.dump()), KeyRefusedError) << record;
  }
}

Json wycheproof(const std::string& name) {
  return test::spec_file("../tests/unit/message/wycheproof/" + name + ".json");
}

TEST(Signatures, ed25519_is_judged_as_published_m_17) {
  const Json published = wycheproof("ed25519");
  const Algorithm& ed25519 = algorithm_of("ed25519");
  for (const Json& item : published["tests"]) {
    const MessageKey key = make_key({"wycheproof", &ed25519, {}, bytes_of(item["pk"])});
    EXPECT_EQ(holds(key, bytes_of(item["sig"]), bytes_of(item["msg"])), item["result"] == "valid") << item["comment"];
  }
}

TEST(Keys, of_the_contract_have_the_lengths_of_its_table_m_19_m_24) {
  const Json table = test::spec_file("algorithms.json");
  EXPECT_EQ(algorithms().size(), table["encryption"].size() + table["signature"].size());
  for (const char* const kind : {"encryption", "signature"}) {
    for (const auto& [name, row] : table[kind].items()) {
      const Algorithm& ours = algorithm_of(name);
      const auto length = [](const Json& value) { return value.is_null() ? 0 : value.get<std::size_t>(); };
      EXPECT_EQ(ours.output, row.value(ours.signs() ? "signature" : "encapsulated", std::size_t{0})) << name;
      EXPECT_EQ(ours.secret, length(row["secret"])) << name;
      EXPECT_EQ(ours.public_part, length(row["public"])) << name;
      EXPECT_EQ(ours.strict, row["strict"]) << name;
      EXPECT_EQ(ours.type, row.value("type", 0)) << name;
    }
  }
  for (const auto& [alias, meant] : table["aliases"].items()) EXPECT_EQ(algorithm_of(alias).name, meant);
  for (const Json& name : table["refused"]) {
    EXPECT_THROW(algorithm_of(name.get<std::string>()), WeakAlgorithmError) << name;
  }
  EXPECT_THROW(algorithm_of("rot13"), UnknownAlgorithmError);
}

TEST(Keys, limits_are_those_of_the_contract_m_21_m_26) {
  const Json ours{{"iv_bytes", iv_bytes},
                  {"tag_bytes", tag_bytes},
                  {"data_key_bytes", data_key_bytes},
                  {"wrapped_key_bytes", wrapped_key_bytes},
                  {"max_recipients", max_recipients},
                  {"min_rsa_bits", min_rsa_bits},
                  {"max_key_id_bytes", max_key_id_bytes},
                  {"max_key_uses", max_key_uses},
                  {"future_tolerance_ms", future_tolerance_ms}};
  const Json limits = test::spec_file("algorithms.json")["limits"];
  for (const auto& [name, number] : ours.items()) EXPECT_EQ(number, limits[name]) << name;
}

TEST(Keys, written_down_and_read_are_the_same_key_m_26) {
  for (const char* const name : {"aes-256-gcm", "x25519-chacha20-poly1305", "ed25519", "hmac-sha256"}) {
    KeyBounds bounds;
    bounds.topics = {"orders.*"};
    bounds.publishers = {"billing"};
    bounds.not_before_ms = 1;
    bounds.not_after_ms = 5;
    const MessageKey made = MessageKey::generate("k", name, bounds);
    EXPECT_EQ(MessageKey::parse(made.to_json()).to_json(), made.to_json()) << name;
  }
}

TEST(Keys, that_traverse_paths_are_refused_m_26) {
  for (const std::string& id : {std::string(), std::string("../etc"), std::string(".hidden"), std::string("-rf"),
                                std::string("a/b"), std::string("a..b"), std::string(129, 'x'), std::string("a\n")}) {
    EXPECT_THROW(MessageKey::generate(id, "aes-256-gcm"), KeyRefusedError) << id;
  }
}

TEST(Keys, that_are_malformed_are_refused_by_name_m_26) {
  Json record = Json::parse(MessageKey::generate("k", "ed25519").to_json());
  const std::pair<const char*, Json> changes[] = {
      {"more", 1},        {"secret", "%%"},         {"secret", 5},          {"secret", "AAAA"}, {"topics", "orders"},
      {"topics", {1, 2}}, {"not_before_ms", "now"}, {"not_after_ms", true}, {"id", 7},          {"public", ""}};
  for (const auto& [field, value] : changes) {
    Json changed = record;
    changed[field] = value;
    EXPECT_THROW(MessageKey::parse(changed.dump()), KeyRefusedError) << changed.dump();
  }
  EXPECT_THROW(MessageKey::parse("[]"), KeyRefusedError);
  EXPECT_THROW(MessageKey::parse(R"({"id": "k", "algorithm": "ed25519"})"), KeyRefusedError);
  EXPECT_THROW(MessageKey::parse(R"({"id": "k", "algorithm": "rsa-2048"})"), WeakAlgorithmError);
}

TEST(Keys, are_used_only_within_their_bounds_m_26) {
  KeyBounds bounds;
  bounds.namespaces = {"prod"};
  bounds.topics = {"orders.*"};
  bounds.not_before_ms = 10;
  bounds.not_after_ms = 20;
  const MessageKey key = MessageKey::generate("k", "aes-256-gcm", bounds);
  EXPECT_NO_THROW(check_use(key, "prod", "orders.created", 15));
  EXPECT_THROW(check_use(key, "test", "orders.created", 15), KeyRefusedError);
  EXPECT_THROW(check_use(key, "prod", "flights", 15), KeyRefusedError);
  EXPECT_THROW(check_use(key, "prod", "orders.created", 9), KeyRefusedError);
  EXPECT_THROW(check_use(key, "prod", "orders.created", 21), KeyRefusedError);
}

TEST(Keys, of_a_set_follow_each_other_and_the_newest_that_has_begun_is_used_m_26) {
  const auto from = [](const char* id, std::int64_t begins) {
    KeyBounds bounds;
    bounds.not_before_ms = begins;
    return MessageKey::generate(id, "hmac-sha256", bounds);
  };
  KeyStore store;
  store.put("orders", {from("first", 10), from("third", 30), from("second", 20)});
  EXPECT_EQ(store.current("orders", "default", "x", 25).id(), "second");
  EXPECT_EQ(store.current("orders", "default", "x", 30).id(), "third");
  EXPECT_THROW(store.current("orders", "default", "x", 5), KeyRefusedError);
  EXPECT_THROW(store.current("flights", "default", "x", 25), KeyUnavailableError);
  EXPECT_EQ(store.find("first")->id(), "first");
  EXPECT_FALSE(store.find("fourth"));
}

}  // namespace
}  // namespace speed::message
