// Text of others as a terminal or a log may have it (W-19).
#include "wire/names/harmless.hpp"

#include <gtest/gtest.h>

#include <random>

#include "vectors.hpp"

namespace speed::wire {
namespace {

using test::cases;
using test::what;

TEST(Harmless, what_acts_is_shown_by_its_number) {
  for (const auto& item : cases("harmless", "texts")) {
    EXPECT_EQ(harmless(item["text"].get<std::string>()), item["shown"].get<std::string>()) << what(item);
  }
}

TEST(Harmless, a_text_is_cut_between_its_characters) {
  for (const auto& item : cases("harmless", "cut")) {
    const auto most = item["max_chars"].get<std::size_t>();
    EXPECT_EQ(harmless(item["text"].get<std::string>(), most), item["shown"].get<std::string>()) << what(item);
  }
}

TEST(Harmless, bytes_that_are_no_text_are_shown_by_their_numbers) {
  EXPECT_EQ(harmless("a\x9b\xffz\xc3"), "a\\x9b\\xffz\\xc3");
  EXPECT_EQ(harmless("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a pair
}

TEST(Harmless, no_control_character_is_left_of_any_bytes) {
  std::mt19937 random(19);
  for (int round = 0; round < 2000; ++round) {
    std::string text(40, ' ');
    for (char& one : text) one = static_cast<char>(random());
    const std::string shown = harmless(text);
    for (const char one : shown) EXPECT_TRUE(static_cast<unsigned char>(one) >= 0x20 && one != 0x7f) << shown;
    EXPECT_EQ(harmless(shown), shown);
  }
}

}  // namespace
}  // namespace speed::wire
