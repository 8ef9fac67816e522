// The bounds of quarantine count what files claim (L-20).
#include "fs/lane/quarantine.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "fs/lane/inbox.hpp"
#include "one_lane.hpp"

namespace speed::fs {
namespace {

constexpr auto giant = static_cast<std::uintmax_t>(std::numeric_limits<std::int64_t>::max());

class QuarantineTest : public testing::Test {
 protected:
  QuarantineTest() { Inbox::prepare(root_.path, "billing"); }

  // Puts a directory of such files aside; what is kept of it.
  std::ptrdiff_t kept(Quarantine& quarantine, const std::vector<std::uintmax_t>& sizes) const {
    const std::string place = root_.path + "/foreign";
    std::filesystem::create_directory(place);
    for (std::size_t at = 0; at < sizes.size(); ++at) {
      const std::string path = place + "/" + std::to_string(at);
      test::put(path, "");
      std::filesystem::resize_file(path, sizes[at]);
    }
    const std::ptrdiff_t before = files();
    quarantine.take(open_directory(root_.path).get(), "foreign", "NO_LANE");
    return files() - before;
  }

  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(wire::quarantine_dir(root_.path, "billing")), {});
  }

  test::TestRoot root_{"/dev/shm"};  // in memory a file may claim to be as large as there are numbers
};

TEST_F(QuarantineTest, sizes_whose_sum_exceeds_all_numbers_do_not_fit_l_20) {
  Quarantine quarantine(root_.path, "billing");
  EXPECT_EQ(kept(quarantine, {3, 3}), 2);  // itself and the reason
  EXPECT_EQ(kept(quarantine, {giant, giant, 3}), 0);
  EXPECT_EQ(kept(quarantine, {giant, giant, 1}), 0);
}

}  // namespace
}  // namespace speed::fs
