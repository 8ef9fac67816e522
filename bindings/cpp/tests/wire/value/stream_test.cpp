// Envelopes of streams, and what a request says of one (registry_spec/streams.md).
#include "wire/value/stream.hpp"

#include <gtest/gtest.h>

#include "speed/error.hpp"
#include "vectors.hpp"
#include "wire/value/spc.hpp"

namespace speed::wire {
namespace {

using test::cases;
using test::Json;

void check_progress(const StreamProgress& progress, const Json& meant) {
  EXPECT_EQ(progress.done, meant.at("done").get<double>());
  EXPECT_EQ(progress.total.has_value(), !meant.at("total").is_null());
  EXPECT_EQ(progress.total.value_or(-1), meant.at("total").is_null() ? -1 : meant.at("total").get<double>());
  EXPECT_EQ(progress.note, meant.at("note").get<std::string>());
}

TEST(StreamPart, IsReadAsItWasMeant) {  // S-28
  for (const Json& one : cases("streams", "parts")) {
    SCOPED_TRACE(test::what(one));
    const Bytes payload = test::bytes_of(one.at("payload"));
    const StreamPart part = decode_stream(payload);
    EXPECT_EQ(part.request_id, one.at("requestId").get<std::string>());
    EXPECT_EQ(part.number.has_value(), one.contains("number"));
    if (one.contains("credit")) {
      EXPECT_EQ(part.credit_items, one.at("credit")[0].get<std::uint64_t>());
      EXPECT_EQ(encode_credit(part.request_id, part.credit_items, part.credit_bytes), payload);
    } else if (one.contains("progress")) {
      check_progress(part.progress.value(), one.at("progress"));
      EXPECT_EQ(encode_progress(part.request_id, *part.progress), payload);
    } else {
      EXPECT_EQ(*part.number, one.at("number").get<std::uint64_t>());
      EXPECT_EQ(part.last, one.at("last").get<bool>());
      EXPECT_EQ(part.items_at, one.at("itemsAt").get<std::size_t>());
      EXPECT_EQ(decode_items(payload, part).size(), one.at("items").get<std::size_t>());
      Buffer front;
      encode_items_front(part.request_id, *part.number, static_cast<std::uint32_t>(part.items), part.last, front);
      EXPECT_EQ(Bytes(front.view().begin(), front.view().end()),
                Bytes(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(part.items_at)));
    }
  }
}

TEST(StreamPart, IsRefusedWhereItIsNone) {  // S-28
  for (const Json& one : cases("streams", "refused")) {
    SCOPED_TRACE(test::what(one));
    EXPECT_THROW(decode_stream(test::bytes_of(one.at("payload"))), WireError);
  }
}

TEST(StreamOffer, IsReadFromTheRequest) {  // S-27
  for (const Json& one : cases("streams", "requests")) {
    SCOPED_TRACE(test::what(one));
    const std::optional<StreamOffer> offer = decode_head(test::bytes_of(one.at("payload"))).stream;
    const Json& meant = one.at("stream");
    ASSERT_EQ(offer.has_value(), !meant.is_null());
    if (!offer) continue;
    EXPECT_EQ(offer->items, meant.at("items").get<std::uint64_t>());
    EXPECT_EQ(offer->bytes, meant.at("bytes").get<std::uint64_t>());
    EXPECT_EQ(offer->sends, meant.at("sends").get<bool>());
    EXPECT_EQ(offer->progress, meant.at("progress").get<bool>());
  }
}

TEST(StreamOffer, RefusesTheRequestWhereItIsNone) {  // S-27
  for (const Json& one : cases("streams", "refused_requests")) {
    SCOPED_TRACE(test::what(one));
    EXPECT_THROW(decode_head(test::bytes_of(one.at("payload"))), WireError);
  }
}

}  // namespace
}  // namespace speed::wire
