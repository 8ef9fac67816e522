// Identities of nodes, by the contract's vectors (I-1 to I-7).
#include "wire/envelope/identity.hpp"

#include <gtest/gtest.h>

#include "speed/error.hpp"
#include "vectors.hpp"
#include "wire/envelope/entry.hpp"
#include "wire/envelope/seal.hpp"

namespace speed::wire {
namespace {

using test::block_of;
using test::bytes_of;
using test::cases;
using test::Json;
using test::what;

NodeIdentity identity_of(const char* who) {
  return NodeIdentity::parse(test::vectors("identity").at(who).get<std::string>());
}

Key shared_key() { return block_of<32>(test::vectors("identity").at("shared_key")); }

template <typename Read>
void expect_refused(const Json& item, Read read) {
  try {
    read();
    ADD_FAILURE() << what(item);
  } catch (const WireError& error) {
    EXPECT_EQ(error.reason(), item.at("error").get<std::string>()) << what(item);
  }
}

TEST(IdentityFile, holds_the_stated_identity_i_1) {
  for (const Json& item : cases("identity", "valid")) {
    const std::string text = item.at("text");
    const NodeIdentity identity = NodeIdentity::parse(text);
    EXPECT_EQ(to_hex(identity.signing()), item.at("signing").get<std::string>()) << what(item);
    EXPECT_EQ(to_hex(identity.exchange()), item.at("exchange").get<std::string>()) << what(item);
    EXPECT_EQ(to_hex(identity.fingerprint()), item.at("fingerprint").get<std::string>()) << what(item);
    EXPECT_EQ(identity.owners(), item.at("owners").get<std::vector<std::string>>()) << what(item);
    EXPECT_EQ(identity.format(), text) << what(item);
    std::vector<std::string> renewed;
    for (const PublicKey& key : identity.renewed()) renewed.push_back(to_hex(key));
    EXPECT_EQ(renewed, item.at("renewed").get<std::vector<std::string>>()) << what(item);
  }
}

TEST(IdentityFile, is_refused_where_it_is_broken_i_2) {
  for (const Json& item : cases("identity", "invalid")) {
    EXPECT_THROW(NodeIdentity::parse(item.at("text").get<std::string>()), KeyFileError) << what(item);
  }
}

TEST(Cards, are_of_the_node_that_they_were_signed_for_i_3) {
  for (const Json& item : cases("identity", "cards")) {
    const Bytes data = bytes_of(item.at("card"));
    const NodeId node = node_id(item.at("node").get<std::string>());
    if (item.contains("error")) {
      expect_refused(item, [&] { read_card(data, node); });
      continue;
    }
    const Card card = read_card(data, node);
    EXPECT_EQ(to_hex(fingerprint_of(card.signing, card.exchange)), item.at("fingerprint").get<std::string>());
    EXPECT_EQ(make_card(identity_of("receiver"), node), data);
  }
}

TEST(BoundLinks, have_the_stated_key_at_both_ends_i_4) {
  const NodeIdentity sender = identity_of("sender");
  const NodeIdentity receiver = identity_of("receiver");
  const Key drawn = block_of<32>(test::vectors("identity").at("ephemeral"));
  for (const Json& item : cases("identity", "links")) {
    const BoundLink link{node_id(item.at("source").get<std::string>()), node_id(item.at("target").get<std::string>()),
                         item.at("generation"), item.at("target_life")};
    const Card card{receiver.signing(), receiver.exchange(), block_of<32>(item.at("renewed"))};
    const auto [opening, sent] = open_link(sender, card, shared_key(), link, drawn);
    EXPECT_EQ(to_hex(opening), item.at("opening").get<std::string>()) << what(item);
    const OpenedLink received = accept_link(receiver, shared_key(), link, opening);
    EXPECT_EQ(received.key, sent.key) << what(item);
    EXPECT_EQ(to_hex(received.key), item.at("key").get<std::string>()) << what(item);
    EXPECT_EQ(to_hex(key_id_of(received.key)), item.at("key_id").get<std::string>()) << what(item);
    EXPECT_EQ(to_hex(received.fingerprint), item.at("fingerprint").get<std::string>()) << what(item);
  }
}

TEST(BoundLinks, are_not_opened_by_what_is_not_of_them_i_5) {
  const NodeIdentity receiver = identity_of("receiver");
  const BoundLink link{node_id("analytics"), node_id("billing"), 7, 0};
  for (const Json& item : cases("identity", "refused_links")) {
    const Bytes opening = bytes_of(item.at("opening"));
    expect_refused(item, [&] { accept_link(receiver, shared_key(), link, opening); });
  }
}

TEST(BoundLinks, seal_and_open_in_the_place_of_the_link_key_i_4) {
  const auto own = std::make_shared<const NodeIdentity>(identity_of("sender"));
  const NodeIdentity to = identity_of("receiver");
  const auto bond = std::make_shared<const Bond>(Bond{own, {to.signing(), to.exchange(), to.renewed().front()}, {}});
  Keyring ring({shared_key()});
  LinkSealer sealer(ring, node_id("analytics"), node_id("billing"), 7);
  EXPECT_EQ(sealer.opening(), nullptr);
  sealer.seal_for(0, bond);
  const std::string first = sealer.opening()->filename;
  sealer.seal_for(0, bond);
  EXPECT_EQ(sealer.opening()->filename, first);
  ring.take({Key{std::byte{1}}, shared_key()});
  Buffer envelope;
  sealer.seal(EnvelopeType::message, 0, 1, 1, view("text"), Nonce{}, envelope);
  EXPECT_NE(sealer.opening()->filename, first);
  const BoundLink link{node_id("analytics"), node_id("billing"), 7, 0};
  const OpenedLink opened = accept_link(to, Key{std::byte{1}}, link, sealer.opening()->data);
  EXPECT_EQ(opening_name({7, key_id_of(opened.key)}), sealer.opening()->filename);
  Header header;
  ASSERT_EQ(read_headers(envelope.view(), header), Refusal::ok);
  EXPECT_EQ(header.key_id, key_id_of(opened.key));
  Bytes sealed(envelope.view().begin(), envelope.view().end());
  EXPECT_EQ(LinkOpener(ring, link.source, link.target).open(header, sealed), Refusal::unknown_key);
}

TEST(BoundLinks, have_openings_of_one_spelling_i_4) {
  const std::string name = opening_name({7, {}});
  EXPECT_EQ(name, "000007-0000000000000000.opening");
  ASSERT_TRUE(parse_opening(name));
  EXPECT_EQ(parse_opening(name)->generation, 7U);
  for (const char* const other : {"7-0000000000000000.opening", "000007-000000000000000.opening",
                                  "000007-00000000000000AB.opening", "000007.opening", "-0000000000000000.opening"}) {
    EXPECT_FALSE(parse_opening(other)) << other;
  }
}

TEST(Grants, of_identities_decide_before_all_others_i_8) {
  Entry entry;
  entry.allow = {"etl.*"};
  entry.identities = {"etl.1@aa", "etl.1@bb"};
  EXPECT_TRUE(grants(entry, "etl.1", "bb"));
  EXPECT_FALSE(grants(entry, "etl.1", "cc"));
  EXPECT_FALSE(grants(entry, "etl.1"));
  EXPECT_TRUE(grants(entry, "etl.2"));
}

TEST(Statements, count_if_a_known_owner_signed_them_i_6) {
  const NodeIdentity owner = identity_of("owner");
  const std::vector<std::string> owners{to_hex(owner.fingerprint())};
  for (const Json& item : cases("identity", "statements")) {
    const Bytes data = bytes_of(item.at("statement"));
    const NodeId node = node_id(item.at("node").get<std::string>());
    if (item.contains("error")) {
      expect_refused(item, [&] { read_statement(data, node, owners); });
      continue;
    }
    const Statement read = read_statement(data, node, owners);
    EXPECT_EQ(static_cast<int>(read.kind), item.at("kind").get<int>()) << what(item);
    EXPECT_EQ(read.fingerprint, item.at("fingerprint").get<std::string>()) << what(item);
    EXPECT_EQ(read.issued, item.at("issued").get<std::uint64_t>()) << what(item);
    EXPECT_EQ(read.until, item.at("until").get<std::uint64_t>()) << what(item);
    EXPECT_EQ(make_statement(owner, read), data) << what(item);
  }
}

TEST(Verdicts, follow_grants_statements_and_what_is_remembered_i_7) {
  for (const Json& item : cases("identity", "judged")) {
    Evidence evidence{item.at("grants"), {}, {}, item.at("has_owners"), item.at("now")};
    if (item.contains("known")) {
      const Json& known = item.at("known");
      evidence.known = KnownIdentity{known.at("fingerprint"), known.at("issued"), known.at("is_revoked")};
    }
    if (item.contains("statement")) {
      const Json& one = item.at("statement");
      evidence.statement = Statement{static_cast<Statement::Kind>(one.at("kind").get<int>()), node_id("analytics"),
                                     one.at("fingerprint"), one.at("issued"), one.at("until")};
    }
    const std::string fingerprint = item.at("fingerprint");
    EXPECT_EQ(name_of(judge(fingerprint, evidence)), item.at("verdict").get<std::string>()) << what(item);
  }
}

}  // namespace
}  // namespace speed::wire
