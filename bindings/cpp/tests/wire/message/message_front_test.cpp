// The beginning of a message that no envelope holds (G-18, M-2).
#include "wire/message/message_parts.hpp"

#include <gtest/gtest.h>

#include "speed/error.hpp"

namespace speed::wire {
namespace {

class MessageFrontTest : public testing::Test {
 protected:
  MessageFrontTest() {
    MessageFields fields;
    fields.message_id = "01890a5d-ac96-774b-bcce-b302099a8057";
    fields.published_at_ms = 1;
    Buffer out;
    encode_message(Bytes(3), fields, out);
    const std::string message(text(out.view()));
    others_ = message.substr(0, message.rfind("\x9a\x06"));
  }

  std::size_t start(const std::string& payload_record) const {
    const std::string message = others_ + payload_record;
    return read_front(view(message), message.size()).start - others_.size();
  }

  std::string others_;
};

using namespace std::string_literals;

TEST_F(MessageFrontTest, the_payload_is_framed_by_the_very_bytes_that_writers_write_m_2) {
  EXPECT_EQ(start("\x9a\x06\x05\x12\x03xyz"), 5U);
  EXPECT_EQ(start("\x9a\x06\x08\x0a\x01u\x12\x03xyz"), 8U);
  EXPECT_THROW(start("\x9a\x86\x00\x05\x12\x03xyz"s), WireError);
  EXPECT_THROW(start("\x9a\x06\x06\x92\x00\x03xyz"s), WireError);
  EXPECT_THROW(start("\x9a\x06\x09\x8a\x00\x01u\x12\x03xyz"s), WireError);
}

}  // namespace
}  // namespace speed::wire
