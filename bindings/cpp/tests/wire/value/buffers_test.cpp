// Memory that is kept from one payload to the next.
#include "wire/value/buffer.hpp"

#include <gtest/gtest.h>

namespace speed::wire {
namespace {

constexpr std::size_t mib = 1 << 20;

Buffer of(std::size_t bytes) {
  Buffer buffer;
  buffer.extend(bytes);
  return buffer;
}

TEST(Buffers, are_used_again_and_come_empty) {
  Buffers buffers;
  Buffer given = of(mib);
  const std::byte* const memory = given.data();
  buffers.give(std::move(given));
  Buffer taken = buffers.take();
  EXPECT_EQ(taken.data(), memory);
  EXPECT_EQ(taken.size(), 0U);
  EXPECT_EQ(buffers.take().capacity(), 0U);
}

TEST(Buffers, the_smallest_that_has_room_is_taken) {
  Buffers buffers;
  for (const std::size_t size : {4 * mib, mib, 2 * mib}) buffers.give(of(size));
  EXPECT_EQ(buffers.take(mib + 1).capacity(), 2 * mib);
  EXPECT_EQ(buffers.take(8 * mib).capacity(), 0U);
  EXPECT_EQ(buffers.take(1).capacity(), mib);
}

TEST(Buffers, what_is_shared_comes_back_once_nobody_holds_it) {
  Buffers buffers;
  auto one = buffers.share(of(mib));
  auto other = one;
  one.reset();
  EXPECT_EQ(buffers.take().capacity(), 0U);
  other.reset();
  EXPECT_EQ(buffers.take().capacity(), mib);
}

TEST(Buffers, what_is_shared_may_outlive_them) {
  std::shared_ptr<const void> held;
  {
    Buffers buffers;
    held = buffers.share(of(mib));
  }
  held.reset();
}

TEST(Buffers, what_nobody_takes_is_freed) {
  Buffers buffers;
  buffers.give(of(mib));
  buffers.tidy();
  buffers.give(of(2 * mib));
  buffers.tidy();
  EXPECT_EQ(buffers.take(mib).capacity(), 2 * mib);
  EXPECT_EQ(buffers.take().capacity(), 0U);
}

TEST(Buffers, keep_no_more_than_64_MiB) {
  Buffers buffers;
  buffers.give(of(40 * mib));
  buffers.give(of(40 * mib));
  EXPECT_EQ(buffers.take().capacity(), 40 * mib);
  EXPECT_EQ(buffers.take().capacity(), 0U);
}

}  // namespace
}  // namespace speed::wire
