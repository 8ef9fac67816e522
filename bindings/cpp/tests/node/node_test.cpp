// A node itself: its name, its lease, its settings, its end.
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <fstream>
#include <future>

#include "fabric.hpp"
#include "fs/files.hpp"
#include "fs/probe.hpp"
#include "wire/names/names.hpp"

namespace speed {
namespace {

using test::AgentProcess;
using test::echo;
using test::eventually;
using test::TestRoot;

class NodeTest : public testing::Test {
 protected:
  TestRoot root_;
};

TEST_F(NodeTest, a_name_is_held_by_one_node_at_a_time_r_5) {
  Node first("worker", root_.options());
  EXPECT_THROW(Node("worker", root_.options()), NameTakenError);
  first.close();
  Node second("worker", root_.options());
  EXPECT_EQ(second.generation(), 2U);
}

// A wrong answer of the look for FIFOs would stay for the life of a node.
TEST_F(NodeTest, of_many_nodes_that_start_at_once_none_polls_l_22) {
  std::vector<std::future<std::unique_ptr<Node>>> starts;
  for (int number = 0; number < 60; ++number) {
    starts.push_back(std::async(std::launch::async, [&, number] {
      return std::make_unique<Node>("node" + std::to_string(number), root_.options());
    }));
  }
  std::vector<std::unique_ptr<Node>> nodes;
  for (auto& start : starts) nodes.push_back(start.get());
  for (const auto& node : nodes) EXPECT_TRUE(std::filesystem::is_fifo(wire::bell_path(root_.path, node->name())));
}

TEST_F(NodeTest, a_start_in_which_a_fifo_fails_for_no_reason_of_the_filesystem_fails_l_22) {
  EXPECT_TRUE(fs::filesystem_of(root_.path).supports_fifo);
  EXPECT_THROW(fs::filesystem_of(root_.path + "/gone"), RootError);
}

TEST_F(NodeTest, a_claim_seen_before_its_content_holds_the_name_of_a_dead_node_r_5) {
  AgentProcess(root_, "worker").kill(SIGKILL);
  const Node living("living", root_.options());
  const std::string claim = wire::claim_path(root_.path, "worker", 2);
  std::ofstream(claim).flush();
  const fs::Fd looks(inotify_init1(IN_CLOEXEC));
  ASSERT_GE(inotify_add_watch(looks.get(), claim.c_str(), IN_CLOSE_NOWRITE), 0);
  std::future<void> second = std::async(std::launch::async, [&] { const Node worker("worker", root_.options()); });
  pollfd look{looks.get(), POLLIN, 0};
  ASSERT_EQ(poll(&look, 1, 20'000), 1) << "it never looked at the claim";
  std::filesystem::copy_file(wire::claim_path(root_.path, "living", 1), claim,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THROW(second.get(), NameTakenError);
  EXPECT_FALSE(std::filesystem::exists(wire::claim_path(root_.path, "worker", 3))) << "it claimed the name as well";
}

TEST_F(NodeTest, a_closed_node_says_so_and_leaves_nothing_in_the_registry_r_15) {
  Node node("worker", root_.options());
  node.close();
  EXPECT_TRUE(node.closed());
  EXPECT_THROW(node.nodes(), NodeClosedError);
  EXPECT_FALSE(std::filesystem::exists(wire::entry_path(root_.path, "worker")));
}

TEST_F(NodeTest, joins_and_leaves_are_told_r_16) {
  std::promise<std::string> joined;
  std::promise<std::string> left;
  Node watcher("watcher", root_.options());
  watcher.on_join([&](const NodeInfo& info) { joined.set_value(info.name); });
  watcher.on_leave([&](const NodeInfo& info) { left.set_value(info.name); });
  {
    Node guest("guest", root_.options());
    EXPECT_EQ(joined.get_future().get(), "guest");
  }
  EXPECT_EQ(left.get_future().get(), "guest");
}

TEST_F(NodeTest, a_paused_and_replaced_process_loses_its_lease_r_12) {
  AgentProcess paused(root_, "agent", {"--lease", "2", "--heartbeat", "0.5"});
  paused.pause();
  Node observer("observer", root_.options());
  ASSERT_TRUE(eventually([&] { return observer.nodes().size() == 1; }));
  AgentProcess successor(root_, "agent", {"--lease", "2", "--heartbeat", "0.5"});
  EXPECT_EQ(successor.ready["generation"], 2);
  paused.resume();
  EXPECT_TRUE(eventually([&] { return paused({{"id", 1}, {"op", "nodes"}})["error"] == "LEASE_LOST"; }));
  EXPECT_TRUE(successor({{"id", 1}, {"op", "nodes"}})["ok"].get<bool>());
}

TEST_F(NodeTest, without_bells_lanes_are_polled_l_22) {
  NodeOptions options = root_.options({"client"});
  options.polling = true;
  Node server("server", options);
  NodeOptions others = root_.options();
  others.polling = true;
  Node client("client", others);
  server.serve("echo", echo);
  for (int n = 0; n < 20; ++n) EXPECT_EQ(client.call("server", "echo", {{"data", n}}), Value(n));
}

TEST_F(NodeTest, a_foreign_file_in_the_inbox_goes_to_quarantine_l_21) {
  Node node("node", root_.options());
  ASSERT_EQ(symlink("/etc/passwd", (wire::inbox_dir(root_.path, "node") + "/link").c_str()), 0);
  EXPECT_TRUE(eventually(
      [&] { return std::filesystem::exists(wire::quarantine_dir(root_.path, "node") + "/00000001.reason"); }));
}

TEST_F(NodeTest, the_copy_of_a_forked_child_throws_and_harms_nothing) {
  Node node("node", root_.options());
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      node.nodes();
    } catch (const ForkedNodeError&) {
      status = 0;
    }
    _exit(status);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(node.nodes().size(), 1U);
}

// The exit status of a child that leaves as its parent does: the parent has waited for its end.
int forked(const std::function<void()>& in_child) {
  const pid_t child = fork();
  if (child == 0) {
    in_child();
    return -1;
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST_F(NodeTest, a_child_that_a_service_or_handler_forked_ends_where_it_leaves_it_r_23) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  std::promise<int> handled;
  server.serve("returns", [](const Request&) -> Response { return forked([] {}); });
  server.serve("throws", [](const Request&) -> Response { return forked([] { throw 7; }); });  // NOLINT
  server.on_message([&](Message&) { handled.set_value(forked([] {})); });
  for (const char* const service : {"returns", "throws", "returns"}) {
    EXPECT_EQ(client.call("server", service, {}), Value(EXIT_FAILURE));
  }
  client.send("server", 1, {.ack = true});
  EXPECT_EQ(handled.get_future().get(), EXIT_FAILURE);
}

TEST_F(NodeTest, grants_that_cannot_be_published_are_not_in_force_a_2) {
  std::vector<std::string> many;
  Node node("node", root_.options({"billing"}));
  for (int number = 0; number < 1000; ++number) many.push_back(std::string(100, 'x') + std::to_string(number));
  EXPECT_THROW(node.allow(many), ConfigurationError);
  EXPECT_EQ(node.allowed(), std::vector<std::string>{"billing"});
  node.allow({"analytics"});
  EXPECT_EQ(node.nodes().at(0).allow, (std::vector<std::string>{"analytics", "billing"}));
}

TEST_F(NodeTest, settings_that_cannot_work_are_refused_at_once) {
  NodeOptions options = root_.options();
  options.heartbeat = Seconds(10);
  EXPECT_THROW(Node("node", options), ConfigurationError);
  EXPECT_THROW(Node("bell", root_.options()), InvalidNameError);
  options = root_.options();
  chmod(options.key.c_str(), 0644);
  EXPECT_THROW(Node("node", options), KeyFileError);
}

TEST_F(NodeTest, one_that_was_moved_goes_on_and_what_it_was_moved_from_is_closed) {
  std::vector<Node> nodes;
  nodes.push_back(Node("first", root_.options({"second"})));
  nodes.push_back(Node("second", root_.options()));
  nodes[0].serve("echo", echo);
  Node first = std::move(nodes[0]);
  EXPECT_EQ(nodes[1].call("first", "echo", {{"data", 1}}), Value(1));
  EXPECT_TRUE(nodes[0].closed());  // NOLINT(bugprone-use-after-move): what it then says is the point
  EXPECT_THROW(nodes[0].allow("second"), NodeClosedError);
  first = Node("third", root_.options());
  EXPECT_THROW(nodes[1].call("first", "echo"), UnknownNodeError);
  EXPECT_EQ(first.name(), "third");
}

class TaxService : public SpeedService {
 public:
  SpeedResponse invoke(const SpeedRequest& request) override {
    int amount = request.get<int>("amount");
    return {{"tax", amount * 0.25}};
  }
};

TEST_F(NodeTest, a_service_is_registered_by_its_address_and_for_a_list_of_callers) {
  TaxService tax;
  Node billing("billing", root_.options());
  Node analytics("analytics", root_.options());
  Node other("other", root_.options());
  billing.allow("analytics");
  billing.allow({"other"});
  billing.serve("calculateTax", &tax, {"billing", "analytics"});
  billing.serve("open", echo);
  billing.serve("closed", echo, {});
  EXPECT_EQ(analytics.call("billing", "calculateTax", {{"amount", 1000}})["tax"], Value(250.0));
  EXPECT_THROW(other.call("billing", "calculateTax", {{"amount", 1}}), AccessDeniedError);
  EXPECT_EQ(other.call("billing", "open", {{"data", 1}}), Value(1));
  EXPECT_THROW(other.call("billing", "closed", {{"data", 1}}), AccessDeniedError);
  billing.deny("other");
  EXPECT_EQ(billing.allowed(), std::vector<std::string>{"analytics"});
}

TEST_F(NodeTest, a_service_that_is_taken_back_is_not_found_and_leaves_its_name_free) {
  Node billing("billing", root_.options({"analytics"}));
  Node analytics("analytics", root_.options());
  auto kept = std::make_shared<int>(1);
  billing.serve("tax", [kept](const Request&) { return *kept; });
  billing.unregister("tax");
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_THROW(analytics.call("billing", "tax"), ServiceNotFoundError);
  EXPECT_THROW(billing.unregister("tax"), ServiceNotFoundError);
  billing.serve("tax", [](const Request&) { return 2; });
  EXPECT_EQ(analytics.call("billing", "tax").as<int>(), 2);
}

TEST_F(NodeTest, no_service_at_all_is_refused) {
  Node node("worker", root_.options());
  EXPECT_THROW(node.serve("none", static_cast<Service*>(nullptr)), ConfigurationError);
  EXPECT_THROW(node.serve("none", ServiceFunction()), ConfigurationError);
}

}  // namespace
}  // namespace speed
