// Durability on disk: what was sent has been flushed when the send returns (L-7).
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <future>
#include <vector>

#include "fabric.hpp"
#include "one_lane.hpp"
#include "wire/names/names.hpp"

namespace speed {
namespace {

using test::eventually;
using test::TestRoot;

constexpr int threads = 16;
// So many that the headers of all threads' envelopes do not add up to one message.
constexpr std::size_t message_bytes = 10'000;

// The fdatasync of this process: counted, held until told, failing when told. No disk fails to order.
class HeldFlushes {
 public:
  HeldFlushes() { current = this; }
  HeldFlushes(const HeldFlushes&) = delete;
  HeldFlushes& operator=(const HeldFlushes&) = delete;
  ~HeldFlushes() { current = nullptr; }

  int flush(int fd) {
    const int number = ++begun;
    if (eventually([&] { return released >= number; }) && !failing) return fsync(fd);
    errno = EIO;
    return -1;
  }

  static inline std::atomic<HeldFlushes*> current = nullptr;
  std::atomic<int> begun = 0;
  std::atomic<int> released = 0;  // so many of them may end
  std::atomic<bool> failing = false;
};

std::atomic<int> directories_synced = 0;

}  // namespace
}  // namespace speed

extern "C" int fsync(int fd) {
  struct stat status{};
  if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) ++speed::directories_synced;
  return static_cast<int>(syscall(SYS_fsync, fd));
}

extern "C" int fdatasync(int fildes) {
  speed::HeldFlushes* const held = speed::HeldFlushes::current;
  return held == nullptr ? fsync(fildes) : held->flush(fildes);
}

namespace speed {
namespace {

class DurabilityTest : public testing::Test {
 protected:
  DurabilityTest() : root_(std::filesystem::current_path()) {  // on a disk, where temporary files may not be
    NodeOptions options = root_.options();
    options.durable = true;
    receiver_.emplace("receiver", root_.options({"sender"}));
    sender_.emplace("sender", options);
  }
  void TearDown() override { flushes_.released = INT_MAX; }

  // As many sends as there are threads; all others have appended while the first of them flushes its own envelope.
  std::vector<std::future<std::string>> send_from_threads() {
    std::vector<std::future<std::string>> sends;
    for (int n = 0; n < threads; ++n) {
      sends.push_back(std::async(std::launch::async, [&] { return sender_->send("receiver", Bytes(message_bytes)); }));
      EXPECT_TRUE(eventually([&] { return flushes_.begun == 1; }));
    }
    EXPECT_TRUE(eventually([&] { return flushes_.begun == 1 && appended() >= threads * message_bytes; }));
    return sends;
  }

  // Bytes in the one segment from sender to receiver.
  std::uintmax_t appended() const {
    std::error_code absent;
    const auto size =
        std::filesystem::file_size(wire::lane_dir(root_.path, "receiver", "sender") + "/000001-00000001.lane", absent);
    return absent ? 0 : size;
  }

  TestRoot root_;
  HeldFlushes flushes_;
  std::optional<Node> receiver_;
  std::optional<Node> sender_;
};

TEST_F(DurabilityTest, threads_that_send_at_once_share_a_flush_l_7) {
  auto sends = send_from_threads();
  for (const auto& send : sends) EXPECT_EQ(send.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  flushes_.released = INT_MAX;
  for (auto& send : sends) EXPECT_FALSE(send.get().empty());
  EXPECT_EQ(flushes_.begun, 2);
}

// A device reports a loss once; a later flush that succeeds proves nothing.
TEST_F(DurabilityTest, a_flush_that_fails_is_told_to_all_whose_envelopes_it_was_for_l_7) {
  flushes_.failing = true;
  auto sends = send_from_threads();
  flushes_.released = 1;
  ASSERT_TRUE(eventually([&] { return flushes_.begun == 2; }));
  flushes_.failing = false;
  flushes_.released = INT_MAX;
  for (auto& send : sends) EXPECT_THROW(send.get(), StorageError);
  EXPECT_NO_THROW(sender_->send("receiver", "later"));
}

// Whoever appended waits for a flush still, which finds the link at rest (L-26): no descriptor is left to be flushed.
TEST(Durability, a_lane_that_is_closed_is_flushed_with_the_directories_that_name_it_l_7) {
  const test::OneLane lane;
  test::Sender sender(lane, 1, {.durable = true});
  sender.send("hello");
  const int before = directories_synced;
  sender.writer.close();
  EXPECT_EQ(directories_synced - before, 4);  // lane, inbox, node, root
  sender.writer.close();
  EXPECT_EQ(directories_synced - before, 4);
}

}  // namespace
}  // namespace speed
