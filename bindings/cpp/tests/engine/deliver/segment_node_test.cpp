// Large payloads and links with a small limit, between nodes over real files (G-17 to G-20).
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <latch>
#include <mutex>
#include <sstream>

#include "engine/runtime.hpp"
#include "fabric.hpp"
#include "segments.hpp"
#include "wire/names/names.hpp"

namespace speed {
namespace {

using test::eventually;
using test::TestRoot;

// A node whose inner parts the test holds too.
class Opened {
 public:
  explicit Opened(std::shared_ptr<engine::Runtime> runtime) : runtime_(std::move(runtime)) { runtime_->start(); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() { runtime_->leave(10s); }

  void wait_for(const std::string& target) { runtime_->wait_for(target, 10s); }

 private:
  std::shared_ptr<engine::Runtime> runtime_;
};

class SegmentNodeTest : public testing::Test {
 protected:
  // A file of so many bytes, whose blocks differ.
  std::string file_of(std::size_t bytes) {
    std::string path = root_.path + "/payload";
    std::ofstream file(path, std::ios::binary);
    std::string block(1 << 20, 'x');
    for (std::size_t at = 0; at < bytes; at += block.size()) {
      block.replace(0, 20, std::to_string(at));
      block.resize(std::min<std::size_t>(1 << 20, bytes - at));
      file << block;
    }
    return path;
  }

  static std::string content_of(const std::string& path) {
    std::ostringstream content;
    content << std::ifstream(path, std::ios::binary).rdbuf();
    return std::move(content).str();
  }

  // What a sender writes that is no node of ours: a segment as it is.
  static void send_bytes(engine::Runtime& runtime, const std::string& target, ByteView segment,
                         std::uint16_t flags = 0) {
    const auto type = wire::EnvelopeType::message;
    const auto all = static_cast<std::uint16_t>(flags | wire::flag_segment);
    runtime.links.granted(target)->send({type, all, {&segment, 1}});
  }

  // A whole message in bytes.
  static Bytes message_of(const Value& payload) {
    wire::MessageFields fields;
    fields.message_id = "01890a5d-ac96-774b-bcce-b302099a8057";
    fields.published_at_ms = 1;
    wire::Buffer out;
    wire::encode_message(payload, fields, out);
    return {out.view().begin(), out.view().end()};
  }

  TestRoot root_;
};

TEST_F(SegmentNodeTest, a_file_is_streamed_and_read_from_the_store_g_18) {
  const std::string path = file_of((64 << 20) + 1000);
  std::vector<std::size_t> progress;
  std::promise<std::string> topic;  // an acknowledgement orders what threads do, but no sanitizer sees it
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  receiver.on_message([&](Message& message) {
    ASSERT_NE(message.large(), nullptr);
    save(*message.large(), root_.path + "/copy");
    topic.set_value(message.topic());
  });
  SendOptions options;
  options.ack = true;
  options.topic = "files";
  options.timeout = Seconds(60);
  const FileSource file(path);
  sender.send_large("receiver", file, options, [&](std::size_t written, std::size_t total) {
    progress.push_back(written);
    EXPECT_GE(total, file.size());
  });
  EXPECT_EQ(topic.get_future().get(), "files");
  EXPECT_GT(progress.size(), 16U);
  EXPECT_TRUE(std::ranges::is_sorted(progress));
  EXPECT_TRUE(content_of(path) == content_of(root_.path + "/copy"));
  for (const auto& left : std::filesystem::directory_iterator(wire::segments_dir(root_.path, "receiver"))) {
    EXPECT_NE(left.path().extension(), ".shards") << "a payload that was handled is still kept";
  }
}

TEST_F(SegmentNodeTest, a_value_that_no_envelope_holds_arrives_as_that_value) {
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  const Value payload = Map{{"big", Bytes(wire::limits::max_payload_bytes, std::byte{5})}, {"small", 1}};
  SendOptions options;
  options.timeout = Seconds(60);
  sender.send("receiver", payload, options);
  std::optional<Message> message = receiver.receive(Seconds(60));
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->payload() == payload);
}

TEST_F(SegmentNodeTest, calls_messages_and_events_work_over_a_link_with_a_segment_size_g_18) {
  std::mutex lock;
  std::vector<std::string> topics;
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options({"server"}));
  server.serve("echo", test::echo);
  server.subscribe("news", [&](Message& message) {
    const std::lock_guard guard(lock);
    topics.push_back(message.topic());
  });
  client.segment("server", 256, 0.25);
  server.segment("client", 128);
  const Value data = Bytes(9000, std::byte{3});
  EXPECT_TRUE(client.call("server", "echo", {{"data", data}}) == data);
  EXPECT_EQ(client.call("server", "echo", {{"data", 1}}), Value(1));
  SendOptions options;
  options.ack = true;
  client.send("server", data, options);
  client.send("server", "brief", options);
  EXPECT_TRUE(server.receive(Seconds(10))->payload() == data);
  EXPECT_EQ(server.receive(Seconds(10))->payload(), Value("brief"));
  EXPECT_EQ(client.publish("news", data).count(), 1U);
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard guard(lock);
    return topics.size() == 1;
  }));
  EXPECT_GE(test::counter(server, "payloads_from_segments"), 5);
}

TEST_F(SegmentNodeTest, an_answer_too_large_for_its_link_is_an_error_g_18) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options({"server"}));
  server.serve("big", [](const Request&) -> Response { return Value(Bytes(300'000)); });
  server.segment("client", 64);
  EXPECT_THROW(client.call("server", "big"), ExecutionFailedError);
}

TEST_F(SegmentNodeTest, what_a_bridge_loses_is_recovered_g_10) {
  Node receiver("receiver", root_.options({"sender"}));
  const auto runtime = engine::Runtime::make("sender", root_.options());
  Opened sender(runtime);
  const Bytes payload(5000, std::byte{9});
  const std::vector<Bytes> segments = test::segments_of(message_of(payload), 512, 3);
  for (std::size_t slot = 3; slot < segments.size(); ++slot) send_bytes(*runtime, "receiver", segments[slot]);
  EXPECT_TRUE(receiver.receive(Seconds(10))->payload() == Value(payload));
}

TEST_F(SegmentNodeTest, segments_survive_a_restart_and_the_payload_comes_once_g_14) {
  const auto runtime = engine::Runtime::make("sender", root_.options());
  Opened sender(runtime);
  const std::vector<Bytes> segments = test::segments_of(message_of(Bytes(5000)), 512, 0);
  {
    Node receiver("receiver", root_.options({"sender"}));
    for (std::size_t slot = 0; slot < 6; ++slot) send_bytes(*runtime, "receiver", segments[slot]);
    send_bytes(*runtime, "receiver", segments[5]);
    EXPECT_TRUE(eventually([&] { return test::counter(receiver, "segments_duplicate") == 1; }));
  }
  Node receiver("receiver", root_.options({"sender"}));
  sender.wait_for("receiver");
  for (std::size_t slot = 6; slot < segments.size(); ++slot) send_bytes(*runtime, "receiver", segments[slot]);
  EXPECT_TRUE(receiver.receive(Seconds(10)));
  for (const Bytes& segment : segments) send_bytes(*runtime, "receiver", segment);
  EXPECT_FALSE(receiver.receive(Seconds(0.2)));
  EXPECT_TRUE(eventually(
      [&] { return test::counter(receiver, "segments_repeated") == static_cast<std::int64_t>(segments.size()); }));
}

TEST_F(SegmentNodeTest, a_payload_that_expires_is_reported_to_who_waits_for_it_g_19) {
  std::promise<core::Outcome> told;
  NodeOptions options = root_.options({"sender"});
  options.segment_limits.idle = Seconds(0.5);
  Node receiver("receiver", options);
  const auto runtime = engine::Runtime::make("sender", root_.options({"receiver"}));
  Opened sender(runtime);
  const std::vector<Bytes> segments = test::segments_of(message_of(Bytes(5000)), 512, 0);
  const ByteView one(segments[0]);
  const auto flags = static_cast<std::uint16_t>(wire::flag_segment | wire::flag_ack_requested);
  runtime->links.granted("receiver")
      ->send({wire::EnvelopeType::message, flags, {&one, 1}, {}, false, [&](std::uint64_t sequence) {
                runtime->calls.track_ack("receiver", sequence, never,
                                         [&](const core::Outcome& outcome) { told.set_value(outcome); });
              }});
  runtime->workers.ensure_reader();
  const core::Outcome outcome = told.get_future().get();
  EXPECT_THROW(std::rethrow_exception(std::get<std::exception_ptr>(outcome)), SegmentsLostError);
}

TEST_F(SegmentNodeTest, a_payload_above_the_limit_is_reported_to_its_sender_g_19) {
  NodeOptions options = root_.options({"sender"});
  options.segment_limits.payload_bytes = 1 << 20;
  Node receiver("receiver", options);
  Node sender("sender", root_.options({"receiver"}));
  SendOptions acknowledged;
  acknowledged.ack = true;
  sender.segment("receiver", 64 << 10);
  EXPECT_THROW(sender.send_large("receiver", FileSource(file_of(2 << 20)), acknowledged), SegmentsLostError);
}

TEST_F(SegmentNodeTest, nonsense_in_segments_is_counted_and_the_next_message_unharmed_g_2) {
  Node receiver("receiver", root_.options({"sender"}));
  const auto runtime = engine::Runtime::make("sender", root_.options());
  Opened sender(runtime);
  const std::vector<Bytes> segments = test::segments_of(message_of(Bytes(5000)), 512, 0);
  send_bytes(*runtime, "receiver", Bytes(10, std::byte{0xff}));
  send_bytes(*runtime, "receiver", segments[0]);
  Bytes changed = segments[0];
  changed.back() ^= std::byte{1};
  send_bytes(*runtime, "receiver", changed);
  for (const Bytes& segment : segments) send_bytes(*runtime, "receiver", segment);
  EXPECT_TRUE(receiver.receive(Seconds(10))->payload() == Value(Bytes(5000)));
  EXPECT_EQ(test::counter(receiver, "rejected_bad_segment"), 1);
  EXPECT_EQ(test::counter(receiver, "rejected_segment_conflict"), 1);
}

TEST_F(SegmentNodeTest, a_payload_that_is_not_what_its_hash_says_is_never_delivered_g_13) {
  Node receiver("receiver", root_.options({"sender"}));
  const auto runtime = engine::Runtime::make("sender", root_.options());
  Opened sender(runtime);
  const Bytes message = message_of(Bytes(5000));
  std::vector<Bytes> segments = test::segments_of(message, 512, 0);
  Bytes wrong = segments[2];
  wrong[wrong.size() / 2] ^= std::byte{1};
  send_bytes(*runtime, "receiver", wrong);
  for (std::size_t slot = 0; slot < segments.size(); ++slot) {
    if (slot != 2) send_bytes(*runtime, "receiver", segments[slot]);
  }
  EXPECT_TRUE(eventually([&] { return test::counter(receiver, "rejected_segment_hash") == 1; }));
  for (const Bytes& segment : segments) send_bytes(*runtime, "receiver", segment);
  EXPECT_TRUE(receiver.receive(Seconds(10)));
  EXPECT_FALSE(receiver.receive(Seconds(0)));
}

TEST_F(SegmentNodeTest, a_segment_size_that_cannot_be_is_refused_g_4) {
  Node node("node", root_.options());
  EXPECT_THROW(node.segment("other", 0), ConfigurationError);
  EXPECT_THROW(node.segment("other", 63, 0.5), ConfigurationError);
  EXPECT_THROW(node.segment("other", wire::limits::max_payload_bytes), ConfigurationError);
  EXPECT_THROW(node.segment("not a name", 64), InvalidNameError);
}

TEST_F(SegmentNodeTest, a_message_kept_longer_than_its_node_can_be_finished) {
  std::optional<Message> kept;
  {
    Node receiver("receiver", root_.options({"sender"}));
    Node sender("sender", root_.options());
    sender.segment("receiver", 64);
    sender.send("receiver", Bytes(1000));
    kept = receiver.receive(Seconds(10));
  }
  ASSERT_TRUE(kept);
  kept->done();
}

}  // namespace
}  // namespace speed
