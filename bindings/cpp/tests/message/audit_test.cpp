// What is told of what is done to messages, and when (M-31).
#include <gtest/gtest.h>

#include "audited.hpp"
#include "message/guard.hpp"

namespace speed::message {
namespace {

using test::Audited;
using Told = std::vector<std::string>;

MessageKey audited_signer(const KeyBounds& bounds = {}) {
  KeyBounds own = bounds;
  own.publishers = {"billing"};
  return MessageKey::generate("signer-1", "ed25519", own);
}

const MessageKey& reader(int number) {
  static const std::vector keys{MessageKey::generate("reader-1", "x25519-chacha20-poly1305"),
                                MessageKey::generate("reader-2", "x25519-chacha20-poly1305")};
  return keys.at(static_cast<std::size_t>(number - 1));
}

Protection for_both() {
  Protection asked;
  asked.encrypt_to = {"reader-1", "reader-2"};
  asked.sign_with = "signer-1";
  return asked;
}

Protection with_personal_data() {
  Protection asked;
  asked.contains_pii = true;
  return asked;
}

Protection of_class(Classification level) {
  Protection asked;
  asked.classification = level;
  return asked;
}

void trust(Audited& audited, SignaturePolicy policy) {
  audited.security.policy = policy;
  audited.security.trusted = {"signer-1"};
}

// --- what is written ---

TEST(Audit, what_is_encrypted_and_signed_is_two_lines_that_name_their_keys_m_31) {
  const Audited audited({audited_signer(), reader(1), reader(2)});
  Protection asked = for_both();
  asked.classification = Classification::restricted;
  audited.written(asked);
  EXPECT_EQ(audited.told(), (Told{"encrypt ok", "sign ok"}));
  EXPECT_EQ(
      audited.line(0),
      R"({"operation":"encrypt","outcome":"ok","algorithm":"x25519-chacha20-poly1305","key_id":"reader-1,reader-2",)"
      R"("message_id":"id-1","source":"billing","topic":"orders.created","namespace":"default",)"
      R"("classification":"restricted"})");
  EXPECT_EQ(audited.lines()[1]["key_id"], "signer-1");
}

TEST(Audit, what_is_only_compressed_is_not_told_m_31) {
  const Audited audited;
  Protection asked;
  asked.compression = "gzip";
  audited.opened(audited.written(asked));
  EXPECT_EQ(audited.told(), Told());
}

TEST(Audit, what_is_refused_to_be_written_is_one_line_m_31) {
  KeyBounds elsewhere;
  elsewhere.topics = {"stock.*"};
  const Audited audited({audited_signer(elsewhere), reader(1), reader(2)});
  EXPECT_THROW(audited.written(for_both()), KeyRefusedError);
  EXPECT_EQ(audited.told(), Told{"send KEY_REFUSED"});
}

TEST(Audit, a_refusal_names_the_keys_that_were_to_be_used_m_31) {
  const Audited audited({audited_signer(), reader(1), MessageKey::generate("reader-2", "chacha20-poly1305")});
  EXPECT_THROW(audited.written(for_both()), EncryptionError);
  EXPECT_EQ(audited.told(), Told{"send BAD_ENCRYPTION"});
  EXPECT_EQ(audited.lines()[0]["algorithm"], "x25519-chacha20-poly1305,chacha20-poly1305,ed25519");
  EXPECT_EQ(audited.lines()[0]["key_id"], "reader-1,reader-2,signer-1");
}

TEST(Audit, a_confidential_message_in_the_clear_is_told_m_28_m_31) {
  const Audited audited;
  EXPECT_THROW(audited.written(of_class(Classification::confidential)), NotEncryptedError);
  EXPECT_EQ(audited.told(), Told{"send NOT_ENCRYPTED"});
  EXPECT_EQ(audited.lines()[0]["classification"], "confidential");
}

TEST(Audit, what_cannot_be_told_is_not_written_m_31) {
  Audited audited({audited_signer(), reader(1), reader(2)});
  audited.fill();
  wire::Buffer out;
  EXPECT_THROW(Guard(audited.security).write(1, Audited::fields(), for_both(), out), StorageError);
  EXPECT_EQ(out.size(), 0U);
}

// --- what is received ---

TEST(Audit, what_is_verified_and_opened_is_two_lines_that_name_both_nodes_m_31) {
  Audited audited({audited_signer(), reader(1), reader(2)});
  const wire::MessageView view = audited.quietly(for_both());
  trust(audited, SignaturePolicy::require);
  audited.opened(view);
  EXPECT_EQ(audited.told(), (Told{"verify ok", "decrypt ok"}));
  const std::string where = R"("message_id":"id-1","source":"till","reader":"archive","topic":"orders.created",)"
                            R"("namespace":"default","publisher":"billing"})";
  EXPECT_EQ(audited.line(0),
            R"({"operation":"verify","outcome":"ok","algorithm":"ed25519","key_id":"signer-1",)" + where);
  EXPECT_EQ(audited.line(1), R"({"operation":"decrypt","outcome":"ok","algorithm":"x25519-chacha20-poly1305",)"
                             R"("key_id":"reader-1",)" +
                                 where);
}

TEST(Audit, a_signature_that_nobody_looks_at_is_not_told_m_31) {
  const Audited audited({audited_signer()});
  Protection asked;
  asked.sign_with = "signer-1";
  audited.opened(audited.quietly(asked));
  EXPECT_EQ(audited.told(), Told());
}

TEST(Audit, a_refused_signature_is_one_line_with_the_key_that_it_names_m_31) {
  Audited audited({audited_signer()});
  trust(audited, SignaturePolicy::require);
  Protection asked;
  asked.sign_with = "signer-1";
  const wire::MessageView view = audited.quietly(asked);
  Bytes altered(view.bytes().begin(), view.bytes().end());
  altered.back() ^= std::byte{1};
  EXPECT_THROW(audited.opened(wire::MessageView(altered)), SignatureError);
  EXPECT_THROW(audited.opened(audited.quietly()), UnsignedError);
  EXPECT_EQ(audited.told(), (Told{"verify BAD_SIGNATURE", "verify UNSIGNED"}));
  EXPECT_EQ(audited.lines()[0]["key_id"], "signer-1");
  EXPECT_EQ(audited.lines()[1]["key_id"], "");
}

TEST(Audit, a_weak_algorithm_of_a_signature_is_told_though_nobody_looks_at_it_m_24_m_31) {
  const Audited audited;
  wire::MessageFields fields = Audited::fields();
  fields.signature_algorithm = "md5";
  fields.signature_key_id = "k";
  EXPECT_THROW(audited.opened(audited.quietly({}, fields)), WeakAlgorithmError);
  EXPECT_EQ(audited.told(), Told{"verify WEAK_ALGORITHM"});
}

TEST(Audit, a_payload_for_others_is_one_line_with_their_keys_m_31) {
  const Audited writer({audited_signer(), reader(1), reader(2)});
  const Audited audited;
  EXPECT_THROW(audited.opened(writer.quietly(for_both())), NoRecipientKeyError);
  EXPECT_EQ(audited.told(), Told{"decrypt NO_RECIPIENT_KEY"});
  EXPECT_EQ(audited.lines()[0]["key_id"], "reader-1,reader-2");
}

TEST(Audit, what_is_refused_for_its_time_is_told_by_its_wire_code_m_31_m_32) {
  Audited audited({audited_signer()});
  Protection asked;
  asked.sign_with = "signer-1";
  const wire::MessageView view = audited.quietly(asked);
  trust(audited, SignaturePolicy::verify);
  EXPECT_THROW(audited.opened(view, test::audited_ms - 400'000), WireError);
  EXPECT_EQ(audited.told(), (Told{"verify ok", "receive BAD_MESSAGE"}));
  EXPECT_EQ(audited.lines()[1]["key_id"], "");
}

TEST(Audit, a_message_that_cannot_be_judged_now_is_not_told_m_31) {
  Audited audited;
  trust(audited, SignaturePolicy::verify);
  EXPECT_THROW(audited.opened(audited.quietly()), KeyUnavailableError);
  EXPECT_EQ(audited.told(), Told());
}

TEST(Audit, a_restricted_message_is_told_before_it_is_handed_out_m_28_m_31) {
  const Audited audited({audited_signer(), reader(1), reader(2)});
  Protection asked = of_class(Classification::restricted);
  asked.encrypt_to = {"reader-1"};
  audited.opened(audited.quietly(asked));
  EXPECT_EQ(audited.told(), (Told{"decrypt ok", "access ok"}));
}

TEST(Audit, a_class_that_nobody_knows_counts_as_restricted_m_28) {
  EXPECT_TRUE(is_restricted("cosmic"));
  EXPECT_TRUE(is_restricted("restricted"));
  EXPECT_FALSE(is_restricted("confidential"));
  EXPECT_FALSE(is_restricted(""));
}

TEST(Audit, a_message_with_personal_data_is_told_before_it_is_handed_out_m_31) {
  const Audited audited;
  audited.opened(audited.quietly(with_personal_data()));
  EXPECT_EQ(audited.told(), Told{"access ok"});
  EXPECT_EQ(audited.line(0),
            R"({"operation":"access","outcome":"ok","algorithm":"","key_id":"","message_id":"id-1","source":"till",)"
            R"("reader":"archive","topic":"orders.created","namespace":"default","publisher":"billing",)"
            R"("contains_pii":true})");
}

TEST(Audit, what_cannot_be_told_is_not_handed_out_m_31) {
  Audited audited;
  audited.fill();
  EXPECT_THROW(audited.opened(audited.quietly(with_personal_data())), StorageError);
}

TEST(Audit, what_is_neither_personal_nor_restricted_is_not_told_m_31) {
  const Audited audited;
  audited.opened(audited.quietly(of_class(Classification::internal)));
  EXPECT_EQ(audited.told(), Told());
}

TEST(Audit, neither_keys_nor_payloads_are_told_m_26_m_31) {
  const MessageKey signer = audited_signer();
  const Audited audited({signer, reader(1), reader(2)});
  audited.opened(audited.written(for_both()));
  std::string all;
  for (const wire::Json& line : audited.lines()) all += line.dump();
  EXPECT_EQ(audited.lines().size(), 3U);
  for (const MessageKey& key : {signer, reader(1)}) {
    EXPECT_EQ(all.find(wire::Json::parse(key.to_json())["secret"].get<std::string>()), std::string::npos);
  }
  EXPECT_EQ(all.find("4111"), std::string::npos);
}

TEST(Audit, schema_and_trace_of_a_message_are_told_m_31) {
  const Audited audited;
  wire::MessageFields fields = Audited::fields();
  fields.schema = {.url = {},
                   .version = "v1",
                   .format = {},
                   .hash = {},
                   .name = "order",
                   .compatibility_mode = {},
                   .deprecated_fields_used = {}};
  fields.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  audited.opened(audited.quietly(with_personal_data(), fields));
  EXPECT_EQ(audited.lines()[0]["schema"], "order/v1");
  EXPECT_EQ(audited.lines()[0]["trace"], *fields.traceparent);
}

TEST(Audit, long_texts_are_cut_and_none_of_their_characters_is_halved_m_31) {
  const Audited audited;
  wire::MessageFields fields = Audited::fields();
  std::string longest;
  for (int character = 0; character < 128; ++character) longest += "\xf0\x9f\x98\x80";
  fields.publisher_id = longest + longest;
  audited.opened(audited.quietly(with_personal_data(), fields));
  EXPECT_EQ(audited.lines()[0]["publisher"], longest);
}

}  // namespace
}  // namespace speed::message
