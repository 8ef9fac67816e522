// Messages that nothing takes yet, messages that fail, and what becomes of them (S-17, S-18, T-2, T-5).
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <latch>

#include "engine/runtime.hpp"
#include "fabric.hpp"
#include "fs/store/dead_letters.hpp"
#include "wire/limits.hpp"

namespace speed {
namespace {

using engine::Runtime;
using test::counter;
using test::eventually;
using test::TestRoot;

class FailuresTest : public testing::Test {
 protected:
  std::vector<std::string> dead() const {
    std::vector<std::string> names;
    const std::string path = wire::dead_letters_dir(root_.path, "receiver");
    if (!std::filesystem::exists(path)) return names;
    for (const auto& entry : std::filesystem::directory_iterator(path)) names.push_back(entry.path().filename());
    return names;
  }

  NodeOptions receiver(OnError on_error) const {
    NodeOptions options = root_.options({"sender"});
    options.on_error = on_error;
    options.max_deliveries = 3;
    return options;
  }

  TestRoot root_;
};

TEST_F(FailuresTest, what_came_before_there_was_a_handler_is_handled_first_t_2) {
  std::latch all(100);
  std::vector<std::int64_t> seen;
  Node node("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  for (int n = 0; n < 50; ++n) sender.send("receiver", n, {.ack = true});
  std::thread sending([&] {
    for (int n = 50; n < 100; ++n) sender.send("receiver", n, {.ack = true});
  });
  node.on_message([&](Message& message) {
    seen.push_back(message.payload().as<std::int64_t>());
    all.count_down();
  });
  all.wait();
  sending.join();
  EXPECT_TRUE(std::ranges::is_sorted(seen));
}

TEST_F(FailuresTest, an_event_that_came_before_its_subscription_is_handled_t_2) {
  std::latch handled(1);
  const auto node = Runtime::make("receiver", root_.options({"sender"}));
  node->context.registration->update([](wire::Entry& entry) { entry.subscriptions = {"news"}; });
  Node sender("sender", root_.options());
  EXPECT_EQ(sender.publish("news", 7).count(), 1U);
  node->start();
  EXPECT_TRUE(eventually([&] { return node->context.stats.counters()["messages_received"] == 1; }));
  node->delivery.subscribe("news", [&](Message& message) {
    EXPECT_EQ(message.payload(), Value(7));
    handled.count_down();
  });
  handled.wait();
  node->leave({});
}

TEST_F(FailuresTest, a_handler_that_fails_leaves_a_dead_letter_that_can_be_tried_again_s_18) {
  std::atomic<bool> works = false;
  std::atomic<int> handled = 0;
  Node node("receiver", receiver(OnError::dead_letter));
  Node sender("sender", root_.options());
  node.on_message([&](Message& message) {
    if (!works) throw std::runtime_error("not today");
    EXPECT_TRUE(message.redelivered());
    EXPECT_EQ(message.payload(), Value("hello"));
    ++handled;
  });
  EXPECT_THROW(sender.send("receiver", "hello", {.ack = true}), ExecutionFailedError);
  EXPECT_EQ(dead(), std::vector<std::string>{"00000001.letter"});
  EXPECT_EQ(counter(node, "dead_letters"), 1);
  const std::string path = wire::dead_letters_dir(root_.path, "receiver") + "/00000001.";
  const auto asked_again = [&] { std::filesystem::rename(path + "letter", path + "retry"); };
  asked_again();
  EXPECT_TRUE(eventually([&] { return counter(node, "handler_failures") == 2; }));
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(path + "letter"); }));
  works = true;
  asked_again();
  EXPECT_TRUE(eventually([&] { return handled == 1 && dead().empty(); }));
}

TEST_F(FailuresTest, a_message_is_tried_again_in_its_place_s_17) {
  std::latch all(4);
  std::vector<std::pair<std::int64_t, unsigned>> seen;
  Node node("receiver", receiver(OnError::retry));
  Node sender("sender", root_.options());
  node.on_message([&](Message& message) {
    const auto number = message.payload().as<std::int64_t>();
    seen.emplace_back(number, message.deliveries());
    all.count_down();
    if (number == 0 && message.deliveries() < 3) throw std::runtime_error("once more");
  });
  sender.send("receiver", 0);
  sender.send("receiver", 1);
  all.wait();
  using Seen = std::vector<std::pair<std::int64_t, unsigned>>;
  EXPECT_EQ(seen, (Seen{{0, 1}, {0, 2}, {0, 3}, {1, 1}}));
  EXPECT_TRUE(dead().empty());
}

TEST_F(FailuresTest, one_that_always_fails_is_dead_in_the_end_s_17) {
  Node node("receiver", receiver(OnError::retry));
  Node sender("sender", root_.options());
  node.on_message([](Message&) { throw std::runtime_error("never"); });
  EXPECT_THROW(sender.send("receiver", 0, {.timeout = Seconds(60), .ack = true}), ExecutionFailedError);
  EXPECT_EQ(counter(node, "handler_failures"), 3);
  EXPECT_EQ(dead().size(), 1U);
}

TEST_F(FailuresTest, what_is_dropped_is_counted_s_17) {
  Node node("receiver", receiver(OnError::drop));
  Node sender("sender", root_.options());
  node.on_message([](Message&) { throw std::runtime_error("never"); });
  EXPECT_THROW(sender.send("receiver", 0, {.ack = true}), ExecutionFailedError);
  EXPECT_EQ(counter(node, "messages_dropped"), 1);
  EXPECT_TRUE(dead().empty());
}

// A process that waits for a word, and then begins. Made before there are threads: a sanitizer follows no others.
class LaterProcess {
 public:
  explicit LaterProcess(const std::function<void()>& body) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      char word = 0;
      close(ends[1]);
      if (read(ends[0], &word, 1) == 1) body();
      _exit(100);
    }
    close(ends[0]);
    word_ = ends[1];
  }

  // Lets it begin; its exit status.
  int run() const {
    EXPECT_EQ(write(word_, "x", 1), 1);
    close(word_);
    int status = 0;
    waitpid(pid_, &status, 0);
    return WEXITSTATUS(status);
  }

 private:
  pid_t pid_ = 0;
  int word_ = -1;
};

TEST_F(FailuresTest, a_message_that_ends_its_process_each_time_is_dead_in_the_end_l_25) {
  const auto live = [&] {
    Node node("receiver", receiver(OnError::dead_letter));
    node.on_message([&](Message& message) { _exit(static_cast<int>(message.deliveries())); });
    while (true) pause();
  };
  const std::array<LaterProcess, 3> lives{LaterProcess(live), LaterProcess(live), LaterProcess(live)};
  std::atomic<int> handled = 0;
  Node sender("sender", root_.options());
  {
    const auto first = Runtime::make("receiver", receiver(OnError::dead_letter));  // which never reads
    sender.send("receiver", "poison");
    first->context.registration->remove();
  }
  for (int life = 0; life < 3; ++life) EXPECT_EQ(lives[static_cast<std::size_t>(life)].run(), life + 1);
  Node node("receiver", receiver(OnError::dead_letter));
  node.on_message([&](Message&) { ++handled; });
  EXPECT_TRUE(eventually([&] { return dead().size() == 1; }));
  EXPECT_EQ(handled, 0);
  sender.send("receiver", "sound", {.ack = true});
  EXPECT_EQ(handled, 1);
}

TEST_F(FailuresTest, what_comes_behind_a_payload_in_segments_is_handled_behind_it_g_14) {
  std::latch all(20);
  std::vector<std::size_t> seen;
  Node node("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  sender.segment("receiver", 1 << 20);
  node.on_message([&](Message& message) {
    seen.push_back(message.bytes().size());
    all.count_down();
  });
  for (int n = 0; n < 10; ++n) {
    sender.send("receiver", Bytes(5 << 20));
    sender.send("receiver", n);
  }
  all.wait();
  for (std::size_t at = 0; at < seen.size(); ++at) EXPECT_EQ(seen[at] > 1 << 20, at % 2 == 0) << at;
}

TEST_F(FailuresTest, a_subscriber_that_is_full_or_forbids_holds_up_nobody_and_is_named_s_5) {
  std::atomic<int> heard = 0;
  const auto deaf = Runtime::make("deaf", root_.options({"sender"}));
  deaf->context.registration->update([](wire::Entry& entry) { entry.subscriptions = {"news"}; });
  Node open("open", root_.options({"sender"}));
  Node closed("closed", root_.options());
  NodeOptions narrow = root_.options();
  narrow.max_lane_bytes = 100'000;
  Node sender("sender", narrow);
  open.subscribe("news", [&](Message&) { ++heard; });
  closed.subscribe("news", [](Message&) {});
  SendOptions options;
  options.on_full = SendOptions::OnFull::drop;
  Published last;
  for (int n = 0; n < 5; ++n) {
    last = sender.publish("news", Bytes(30'000), options);
    EXPECT_TRUE(eventually([&] { return heard == n + 1; }));
  }
  EXPECT_EQ(last.delivered, std::vector<std::string>{"open"});
  EXPECT_EQ(last.failed, (std::map<std::string, std::string>{{"closed", "ACCESS_DENIED"}, {"deaf", "INBOX_FULL"}}));
}

TEST_F(FailuresTest, a_service_that_fails_is_in_the_log_of_its_node) {
  std::mutex lock;
  std::vector<std::string> lines;
  set_log([&](LogLevel level, std::string_view logger, std::string_view text) {
    const std::lock_guard guard(lock);
    if (level == LogLevel::error && logger == "speed.spc") lines.emplace_back(text);
  });
  Node node("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  node.serve("bad", [](const Request&) -> Response { throw std::runtime_error("boom\n\x1b[31mforged"); });
  EXPECT_THROW(sender.call("receiver", "bad"), ExecutionFailedError);
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard guard(lock);
    return lines.size() == 1 && lines[0].find(R"(boom\n\x1b[31mforged)") != std::string::npos;
  }));
  set_log({});
}

}  // namespace
}  // namespace speed
