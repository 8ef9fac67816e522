// Nodes in a process that may open no more files, or begin no more threads.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/stat.h>

#include <mutex>

#include "fabric.hpp"
#include "few_files.hpp"
#include "wire/names/names.hpp"

namespace speed {
namespace {

using test::counter;
using test::eventually;
using test::FewFiles;
using test::TestRoot;

class ShortageTest : public testing::Test {
 protected:
  bool is_published(const std::string& name) const {
    return std::filesystem::exists(wire::entry_path(root_.path, name));
  }

  TestRoot root_;
};

// For as long as it lives, no thread begins: none gets so large a stack.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge{};
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 47U);
    if (pthread_setattr_default_np(&huge) != 0) throw std::runtime_error("pthread_setattr_default_np");
    pthread_attr_destroy(&huge);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

// With one file more each time, so that each step of the start is the one that fails.
TEST_F(ShortageTest, a_start_that_fails_is_a_named_error_and_leaves_no_entry_r_5) {
  std::optional<Node> node;
  for (std::size_t files = 0; !node; ++files) {
    ASSERT_LT(files, 100U);
    try {
      const FewFiles few(files);
      node.emplace("worker", root_.options());
    } catch (const Error&) {
      EXPECT_FALSE(is_published("worker")) << files;
    }
  }
  EXPECT_TRUE(is_published("worker"));
}

TEST_F(ShortageTest, a_node_whose_threads_cannot_begin_leaves_no_entry_r_5) {
  {
    const NoThreads none;
    EXPECT_THROW(Node("worker", root_.options()), RegistrationError);
    EXPECT_FALSE(is_published("worker"));
  }
  EXPECT_NO_THROW(Node("worker", root_.options()));
}

TEST_F(ShortageTest, who_asks_for_a_registry_that_cannot_be_listed_is_told_r_20) {
  Node node("node", root_.options());
  node.subscribe("orders", [](const Message&) {});
  const FewFiles none;
  EXPECT_THROW(node.publish("orders", 1), StorageError);
  EXPECT_THROW(node.nodes(), StorageError);
  EXPECT_THROW(node.on_join([](const NodeInfo&) {}), StorageError);
}

TEST_F(ShortageTest, an_entry_that_was_never_read_is_neither_absent_nor_forged_r_20) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("echo", test::echo);
  {
    const FewFiles none;
    EXPECT_THROW(client.call("server", "echo", {{"data", 1}}), StorageError);
    EXPECT_THROW(client.wait_for("server", Seconds(0)), StorageError);
  }
  EXPECT_EQ(client.call("server", "echo", {{"data", 1}}), Value(1));
}

// For as long as it lives, no standard descriptor is open.
class NoStandard {
 public:
  NoStandard() {
    for (int fd = 0; fd < 3; ++fd) {
      kept_.push_back(fcntl(fd, F_DUPFD_CLOEXEC, 3));
      close(fd);
    }
  }
  NoStandard(const NoStandard&) = delete;
  NoStandard& operator=(const NoStandard&) = delete;
  ~NoStandard() {
    for (int fd = 0; fd < 3; ++fd) {
      dup2(kept_[static_cast<std::size_t>(fd)], fd);
      close(kept_[static_cast<std::size_t>(fd)]);
    }
  }

  static int open_ones() {
    int count = 0;
    for (int fd = 0; fd < 3; ++fd) count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    return count;
  }

 private:
  std::vector<int> kept_;
};

TEST_F(ShortageTest, no_file_of_a_node_has_a_standard_descriptor_r_32) {
  bool has_none = false;
  {
    const NoStandard none;
    Node server("server", root_.options({"client"}));
    Node client("client", root_.options());
    server.serve("echo", test::echo);
    client.call("server", "echo", {{"data", 1}});
    client.send("server", Bytes(300'000));
    server.receive(test::hang_time);
    // One that is just being moved away may be seen once.
    has_none = test::eventually([] { return NoStandard::open_ones() == 0; });
  }
  EXPECT_TRUE(has_none);
}

TEST_F(ShortageTest, a_watch_keeps_what_it_saw_while_the_registry_cannot_be_listed_r_20) {
  std::mutex lock;
  std::vector<std::string> events;
  Node watcher("watcher", root_.options());
  const auto note = [&](const char* what) {
    return [&, what](const NodeInfo&) {
      const std::lock_guard guard(lock);
      events.emplace_back(what);
    };
  };
  const auto noted = [&] {
    const std::lock_guard guard(lock);
    return events;
  };
  watcher.on_join(note("joined"));
  watcher.on_leave(note("left"));
  std::optional<Node> guest;
  guest.emplace("guest", root_.options());
  EXPECT_TRUE(eventually([&] { return noted().size() == 1; }));
  {
    const FewFiles none;
    ASSERT_EQ(mkdir((wire::registry_dir(root_.path) + "/hint").c_str(), 0700), 0);
    EXPECT_TRUE(eventually([&] { return counter(watcher, "registry_unlisted") > 0; }));
  }
  guest.reset();
  EXPECT_TRUE(eventually([&] { return noted().back() == "left"; }));
  EXPECT_EQ(noted(), (std::vector<std::string>{"joined", "left"}));
}

}  // namespace
}  // namespace speed
