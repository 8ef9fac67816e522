// Calls run at most once, within their deadlines, whatever becomes of clocks, and each is answered (S-3, S-4, S-8).
#include <gtest/gtest.h>

#include <latch>
#include <limits>

#include "engine/runtime.hpp"
#include "fabric.hpp"
#include "fs/clock.hpp"
#include "wire/value/control.hpp"
#include "wire/value/spc.hpp"

namespace speed {
namespace {

using engine::Runtime;
using test::counter;
using test::eventually;
using test::TestRoot;

class OnceTest : public testing::Test {
 protected:
  TestRoot root_;
};

TEST_F(OnceTest, a_service_sees_an_id_that_is_unique_among_callers_s_3) {
  Node server("server", root_.options({"one", "two"}));
  server.serve("id", [](const Request& request) -> Response { return Value(request.request_id); });
  Node one("one", root_.options());
  Node two("two", root_.options());
  EXPECT_EQ(one.call("server", "id"), Value("one/1.1"));
  EXPECT_EQ(two.call("server", "id"), Value("two/1.1"));
}

// Sends one request as it is given; how the server answers it is counted there. Each has an id of its own: the first may still
// run when the second arrives.
void send_request(Runtime& client, const std::string& id, const wire::Deadline& deadline) {
  wire::Buffer payload;
  wire::encode_request({.request_id = id, .service = "note", .caller = "client", .generation = 1, .deadline = deadline},
                       {}, payload);
  const ByteView one = payload.view();
  client.links.granted("server")->send({wire::EnvelopeType::spc_request, 0, {&one, 1}});
}

TEST_F(OnceTest, a_jump_of_the_wall_clock_ends_no_call_on_one_boot_s_4) {
  std::atomic<int> noted = 0;
  Node server("server", root_.options({"client"}));
  server.serve("note", [&](const Request&) -> Response { return Value(++noted); });
  const auto client = Runtime::make("client", root_.options());
  const std::string boot = client->context.registry->observer().boot_id;
  send_request(*client, "1.77", {fs::unix_ms() - 3'600'000, boot, fs::boot_ms() + 60'000});
  EXPECT_TRUE(eventually([&] { return noted == 1; }));
  send_request(*client, "1.78", {fs::unix_ms() - 3'600'000, "another", fs::boot_ms() + 60'000});
  EXPECT_TRUE(eventually([&] { return counter(server, "requests_timed_out_queued") == 1; }));
  EXPECT_EQ(noted, 1);
}

TEST_F(OnceTest, a_deadline_beyond_all_clocks_is_one_that_does_not_end_s_4) {
  std::atomic<int> noted = 0;
  Node server("server", root_.options({"client"}));
  server.serve("note", [&](const Request&) -> Response { return Value(++noted); });
  const auto client = Runtime::make("client", root_.options());
  constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
  send_request(*client, "1.77", {far, client->context.registry->observer().boot_id, far});
  EXPECT_TRUE(eventually([&] { return noted == 1; }));
  send_request(*client, "1.78", {far, "another", far});
  EXPECT_TRUE(eventually([&] { return noted == 2; }));
}

TEST_F(OnceTest, a_large_control_payload_is_refused_and_a_large_request_for_nobody_is_answered_s_11_s_1) {
  Node server("server", root_.options({"client", "other"}));
  const auto client = Runtime::make("client", root_.options());
  const Bytes large = wire::pack(Map{{"requestId", "1"}, {"data", Bytes(8 << 20)}});
  const ByteView one(large);
  client->links.granted("server")->send({wire::EnvelopeType::heartbeat, 0, {&one, 1}});
  EXPECT_TRUE(eventually([&] { return counter(server, "rejected_bad_payload") == 1; }));
  Node other("other", root_.options());
  EXPECT_THROW(other.call("server", "absent", {{"data", Bytes(32 << 20)}}), ServiceNotFoundError);
}

TEST_F(OnceTest, each_request_is_answered_whatever_the_answer_looks_like_s_3) {
  std::vector<std::future<Value>> calls;
  Node server("server", root_.options({"client"}));
  server.serve("odd", [](const Request& request) -> Response {
    const auto number = request.get<std::int64_t>("n");
    if (number % 3 == 0) return Response::error("", "no code");
    if (number % 3 == 1) return Response::error("EXECUTION_FAILED", std::string(100'000'000, 'x'));
    return Response::error("EXECUTION_FAILED", "large", {{"a", Bytes(70'000'000)}});
  });
  server.serve("echo", test::echo);
  Node client("client", root_.options());
  for (int n = 0; n < 6; ++n) {
    calls.push_back(client.submit("server", "odd", {{"n", n}}));
    calls.push_back(client.submit("server", "echo", {{"data", n}}));
  }
  for (int n = 0; n < 6; ++n) {
    std::future<Value>& odd = calls[2 * static_cast<std::size_t>(n)];
    EXPECT_THROW(odd.get(), ExecutionFailedError);
    EXPECT_EQ(calls[2 * static_cast<std::size_t>(n) + 1].get(), Value(n));
  }
}

TEST_F(OnceTest, arguments_and_results_above_an_envelope_travel_in_segments_g_18) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("echo", test::echo);
  const Value data = Bytes(wire::limits::max_payload_bytes + 7, std::byte{3});
  EXPECT_EQ(client.call("server", "echo", {{"data", data}}, {.timeout = Seconds(120)}), data);
}

TEST_F(OnceTest, what_is_too_large_for_any_call_is_refused_before_it_is_written_g_18) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  try {
    client.call("server", "any", {{"data", Bytes(wire::limits::max_call_bytes + 1)}});
    ADD_FAILURE() << "it was sent";
  } catch (const PayloadTooLargeError& error) {
    EXPECT_EQ(error.execution(), Execution::not_begun);
  }
}

}  // namespace
}  // namespace speed
