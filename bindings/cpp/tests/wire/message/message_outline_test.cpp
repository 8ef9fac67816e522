// What is told of bytes that are no message: sizes, presence and the id, and nothing else (M-35).
#include "wire/message/message_parts.hpp"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

namespace speed::wire {
namespace {

std::string outline_of(std::string_view data) { return outline(std::as_bytes(std::span(data))); }

const std::string absent = "no security, no observability, no schema, no extensions, no payload";

TEST(MessageOutline, parts_are_told_by_their_sizes_and_the_message_by_its_id_m_35) {
  EXPECT_EQ(outline_of("\x0a\x05\x0a\x03"
                       "abc"),
            "7 bytes: metadata 5, " + absent + "; message_id 'abc'");
}

TEST(MessageOutline, what_is_repeated_is_added_up_and_what_is_unknown_is_counted_m_35) {
  EXPECT_EQ(outline_of({"\x0a\x00\x0a\x01\x07\x38\x01", 7}),
            "7 bytes: metadata 1, " + absent + ", 1 unknown; no message_id");
}

TEST(MessageOutline, it_is_told_where_reading_ends_m_35) {
  EXPECT_EQ(outline_of({"\x0a\x00\x07", 3}),
            "3 bytes: metadata 0, " + absent + ", nothing to be read from byte 2; no message_id");
}

TEST(MessageOutline, of_many_records_only_the_first_are_looked_at_m_35) {
  std::string many;
  for (int record = 0; record < 100; ++record) many += "\x38\x01";
  EXPECT_NE(outline_of(many).find(", 64 unknown, more from byte 128;"), std::string::npos) << outline_of(many);
}

}  // namespace
}  // namespace speed::wire
