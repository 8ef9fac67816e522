// Nodes with identities: links that a holder of the shared key alone can neither read nor write (I-1 to I-9).
#include <gtest/gtest.h>

#include "engine/runtime.hpp"
#include "fabric.hpp"
#include "speed/error.hpp"

namespace speed {
namespace {

using test::counter;
using test::eventually;
using test::TestRoot;

class BoundLinksTest : public testing::Test {
 protected:
  std::string fingerprint(const std::string& name) const {
    return wire::to_hex(fs::read_identity(root_.identity(name)).fingerprint());
  }

  static void serve(Node& node) {
    node.serve("who", [](const Request& request) -> Response {
      return Value(Array{request.caller, request.caller_identity});
    });
  }

  static Value who(const std::string& name, const std::string& identity) { return Value(Array{name, identity}); }

  std::size_t openings(const std::string& target, const std::string& source) const {
    std::size_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(wire::lane_dir(root_.path, target, source))) {
      found += entry.path().extension() == ".opening" ? 1 : 0;
    }
    return found;
  }

  void put_keys(const std::vector<wire::Key>& keys) const {
    const std::string file = root_.path + "/speed.key";
    fs::write_key_file(file + ".other", keys);
    std::filesystem::rename(file + ".other", file);
  }

  // Whether the entry of that node says so.
  bool accepts(const std::string& name, const wire::Key& key) const {
    std::ifstream entry(wire::entry_path(root_.path, name));
    const std::string text((std::istreambuf_iterator<char>(entry)), {});
    return text.find(wire::to_hex(wire::key_id_of(key))) != std::string::npos;
  }

  TestRoot root_;
};

TEST_F(BoundLinksTest, a_service_is_told_which_identity_called_i_5) {
  Node server("server", root_.with_identity("server", {"client", "plain"}));
  serve(server);
  Node client("client", root_.with_identity("client"));
  Node plain("plain", root_.options());
  EXPECT_EQ(client.call("server", "who"), who("client", fingerprint("client")));
  EXPECT_EQ(plain.call("server", "who"), who("plain", ""));
}

TEST_F(BoundLinksTest, a_handler_is_told_which_identity_sent_a_message_i_5) {
  Node server("server", root_.with_identity("server", {"client", "plain"}));
  Node client("client", root_.with_identity("client"));
  Node plain("plain", root_.options());
  const auto sender_of = [&](Node& node) {
    node.send("server", 1);
    const std::optional<Message> message = server.receive(Seconds(20));
    return message ? message->source() + " " + message->sender_identity() : std::string();
  };
  EXPECT_EQ(sender_of(client), "client " + fingerprint("client"));
  EXPECT_EQ(sender_of(plain), "plain ");
}

TEST_F(BoundLinksTest, a_grant_of_an_identity_is_for_no_other_i_8) {
  const std::string grant = "client@" + fingerprint("client");
  Node server("server", root_.with_identity("server", {grant}));
  serve(server);
  EXPECT_EQ(server.allowed(), std::vector<std::string>{grant});
  {
    Node client("client", root_.with_identity("client"));
    EXPECT_EQ(client.call("server", "who"), who("client", fingerprint("client")));
  }
  Node plain("client", root_.options());
  EXPECT_THROW(plain.call("server", "who"), AccessDeniedError);
}

TEST_F(BoundLinksTest, an_identity_that_changed_is_refused_by_both_sides_i_7) {
  Node server("server", root_.with_identity("server", {"client"}));
  serve(server);
  {
    Node client("client", root_.with_identity("client", {"server"}));
    client.call("server", "who");
  }
  NodeOptions options = root_.options({"server"});
  options.identity = root_.identity("other");
  Node client("client", options);
  EXPECT_THROW(server.send("client", "for the first alone"), IdentityChangedError);
  EXPECT_THROW(client.call("server", "who", {}, {.timeout = Seconds(1)}), CallTimeoutError);
  EXPECT_GE(counter(server, "unauthorised"), 1);
}

TEST_F(BoundLinksTest, a_known_name_is_not_met_without_its_identity_i_7) {
  Node server("server", root_.with_identity("server", {"client"}));
  serve(server);
  {
    Node client("client", root_.with_identity("client", {"server"}));
    client.call("server", "who");
  }
  Node plain("client", root_.options({"server"}));
  EXPECT_THROW(server.send("client", "in the clear of all"), IdentityMissingError);
  EXPECT_THROW(plain.call("server", "who", {}, {.timeout = Seconds(1)}), CallTimeoutError);
}

TEST_F(BoundLinksTest, an_answer_to_who_has_no_grant_remembers_nobody_i_7) {
  AccessPolicy policy;
  fs::KeySource keys(root_.path + "/speed.key");
  const engine::LogLimiter log;
  const std::string identity = root_.identity("server");
  engine::Peers peers(root_.path, identity, policy, keys, log);
  const auto remembered = [&] { return fs::KnownIdentities(identity).of("client"); };
  wire::Entry client;
  client.name = "client";
  client.identity =
      wire::to_base64(wire::make_card(fs::read_identity(root_.identity("client")), wire::node_id("client")));
  EXPECT_NE(peers.bond("client", &client, true), nullptr);
  EXPECT_EQ(peers.verdict("client", fingerprint("client"), false), wire::Verdict::accepted);
  EXPECT_FALSE(remembered());
  EXPECT_EQ(peers.verdict("client", fingerprint("client"), true), wire::Verdict::accepted);
  EXPECT_TRUE(remembered());
}

TEST_F(BoundLinksTest, what_an_answer_was_bound_to_is_remembered_of_who_has_a_grant_i_7) {
  AccessPolicy policy;
  policy.allow({"client"});
  fs::KeySource keys(root_.path + "/speed.key");
  const engine::LogLimiter log;
  const std::string identity = root_.identity("server");
  engine::Peers peers(root_.path, identity, policy, keys, log);
  wire::Entry client;
  client.name = "client";
  client.identity =
      wire::to_base64(wire::make_card(fs::read_identity(root_.identity("client")), wire::node_id("client")));
  peers.bond("client", &client, true);
  EXPECT_TRUE(fs::KnownIdentities(identity).of("client"));
}

TEST_F(BoundLinksTest, an_owner_says_whose_name_is_whose_i_6) {
  const wire::NodeIdentity owner = fs::read_identity(root_.identity("owner"));
  NodeOptions options = root_.options({"client"});
  options.identity = root_.identity("server", {fingerprint("owner")});
  Node server("server", options);
  Node client("client", root_.with_identity("client", {"server"}));
  EXPECT_THROW(server.send("client", 1), IdentityUnvouchedError);
  const auto state = [&](wire::Statement::Kind kind, std::uint64_t issued) {
    const wire::Statement statement{kind, wire::node_id("client"), fingerprint("client"), issued};
    std::filesystem::create_directories(root_.path + "/speed_registry/.identities");
    const Bytes made = wire::make_statement(owner, statement);
    std::ofstream(wire::statement_path(root_.path, "client")) << wire::text(made);
  };
  const auto sends = [&] {
    try {
      server.send("client", 1);
      return true;
    } catch (const IdentityError&) {
      return false;
    }
  };
  state(wire::Statement::Kind::vouched, 1);
  EXPECT_TRUE(eventually(sends));
  state(wire::Statement::Kind::revoked, 2);
  EXPECT_TRUE(eventually([&] { return !sends(); }));
  EXPECT_THROW(server.send("client", 1), IdentityRevokedError);
  state(wire::Statement::Kind::vouched, 1);  // an old one put back
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // a verdict is believed for a second
  EXPECT_THROW(server.send("client", 1), IdentityRevokedError);
}

TEST_F(BoundLinksTest, an_identity_lives_under_one_name_i_7) {
  const Node client("client", root_.with_identity("client"));
  EXPECT_THROW(Node("server", root_.with_identity("client")), IdentityCopiedError);
}

TEST_F(BoundLinksTest, a_node_without_an_identity_grants_none_i_8) {
  const std::string grant = "client@" + fingerprint("client");
  EXPECT_THROW(Node("server", root_.options({grant})), ConfigurationError);
  Node server("server", root_.options());
  EXPECT_THROW(server.allow({grant}), ConfigurationError);
  EXPECT_TRUE(server.allowed().empty());
  const auto service = [](const Request&) -> Response { return Value(); };
  EXPECT_THROW(server.serve("who", service, {.allow = {{grant}}}), InvalidNameError);
}

TEST_F(BoundLinksTest, links_go_on_when_keys_are_renewed_i_4) {
  NodeOptions often = root_.with_identity("server", {"client"});
  often.heartbeat = Seconds(0.2);
  Node server("server", often);
  serve(server);
  often = root_.with_identity("client");
  often.heartbeat = Seconds(0.2);
  Node client("client", often);
  const Value expected = who("client", fingerprint("client"));
  EXPECT_EQ(client.call("server", "who"), expected);
  const auto goes_on_until = [&](std::size_t opened) {
    return eventually([&] {
      EXPECT_EQ(client.call("server", "who"), expected);
      return openings("server", "client") == opened;
    });
  };
  EXPECT_TRUE(goes_on_until(1));
  const wire::Key old = fs::read_key_file(root_.path + "/speed.key").front();
  const wire::Key added{std::byte{7}};
  put_keys({old, added});
  EXPECT_TRUE(eventually([&] { return accepts("server", added) && accepts("client", added); }));
  put_keys({added, old});
  EXPECT_TRUE(goes_on_until(2));
  std::ifstream before(root_.identity("server"));
  std::string text((std::istreambuf_iterator<char>(before)), {});
  text.insert(text.find("exchange "), "exchange " + wire::to_base64(wire::Key{std::byte{8}}) + "\n");
  TestRoot::put_identity(root_.identity("server"), wire::NodeIdentity::parse(text));
  EXPECT_TRUE(goes_on_until(3));
}

TEST_F(BoundLinksTest, what_is_large_comes_by_a_bound_link_i_9) {
  Node server("server", root_.with_identity("server", {"client"}));
  server.serve("size", [](const Request& request) -> Response {
    return Value(Array{request.get<Bytes>("data").size(), request.caller_identity});
  });
  Node client("client", root_.with_identity("client"));
  for (const std::size_t size : {std::size_t{1} << 20, std::size_t{70} << 20}) {
    const Value expected(Array{size, fingerprint("client")});
    EXPECT_EQ(client.call("server", "size", {{"data", Bytes(size)}}, {.timeout = Seconds(60)}), expected);
  }
}

TEST_F(BoundLinksTest, a_card_of_another_node_is_refused_before_anything_is_written_i_3) {
  Node server("server", root_.with_identity("server", {"client"}));
  const Node client("client", root_.with_identity("client"));
  const auto copy = engine::Runtime::make("copy", root_.options({"server"}));
  wire::Keyring ring(fs::read_key_file(root_.path + "/speed.key"));
  const std::string card = fs::Registry(root_.path, ring).live("client")->identity;
  copy->context.registration->update([&](wire::Entry& entry) { entry.identity = card; });
  EXPECT_THROW(server.send("copy", "for the client"), IdentityError);
  EXPECT_FALSE(std::filesystem::exists(wire::lane_dir(root_.path, "copy", "server")));
}

}  // namespace
}  // namespace speed
