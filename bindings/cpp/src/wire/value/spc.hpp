// SPC payloads: requests and responses as msgpack maps with the RFC's names (S-1, S-2).
// The thread that reads lanes reads the head of a request, which is small, and no more than the id of a response.
// Arguments and results are decoded by whoever wants them.
#pragma once

#include <optional>
#include <string>

#include "speed/stream.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

// When a request is over: Unix time for everybody, and the same moment by the boot clock of the caller's boot.
struct Deadline {
  std::int64_t unix_ms = 0;
  std::string boot_id = {};       // empty: its caller did not say
  std::int64_t boot_ms = 0;
};

// What stands before the arguments of a request; they begin at byte `arguments_at` of the payload.
struct RequestHead {
  std::string request_id;
  std::string service;
  std::string caller;
  std::uint32_t generation = 0;  // of the receiver that it is for
  Deadline deadline;
  std::optional<std::string> traceparent = {};
  bool repeated = false;  // an earlier generation may have run it (S-21)
  std::optional<StreamOffer> stream = {};  // items and progress travel beside the call
  std::size_t arguments_at = 0;
};

// One response as received; exactly one of result and the error fields is meant.
struct WireResponse {
  std::string request_id;
  bool ok = false;
  Value result;
  std::string error_code;
  std::string error_message;
  Map details;
};

inline constexpr std::uint64_t max_credit = std::uint64_t{1} << 53;
std::uint64_t checked_credit(const Value& value);  // items or bytes; WireError BAD_PAYLOAD
// What a request says under `stream`, and as it says it; WireError BAD_PAYLOAD.
std::optional<StreamOffer> stream_offer(const Value& value);
Map as_map(const StreamOffer& offer);

// These append to `out`; UnserialisableError names the argument or part without a representation.
void encode_request(const RequestHead& head, const Map& arguments, Buffer& out);
// The same request for another generation of its receiver; `repeated`: an earlier one may have run it.
void encode_again(ByteView request, std::uint32_t generation, bool repeated, Buffer& out);
void encode_success(const std::string& request_id, const Value& result, Buffer& out);
// Whether a code is one that callers know (S-8).
bool is_call_code(std::string_view code);
// A service's own code, as the service writes it (S-19). It travels behind a prefix, where it meets no other code.
bool is_application_code(std::string_view code);
std::string travelling(std::string_view application_code);
// What is said of a code that is neither.
std::string refused_code(std::string_view code);
// The own code in one that travelled; null if there is none, which reads as an unknown code.
std::optional<std::string> application_code(std::string_view travelled);
// Whatever it is given, this is an answer: a code that is empty is INTERNAL_ERROR, a long text is cut, and details that
// cannot be written or are too large are left out, which the text says (S-2).
void encode_error(const std::string& request_id, std::string_view code, std::string_view message, const Map& details,
                  Buffer& out);

// These throw WireError BAD_PAYLOAD that names the field. `owner` of the payload: what is large in it is lent.
RequestHead decode_head(ByteView payload);
Map decode_arguments(ByteView payload, const RequestHead& head, const Owner& owner = nullptr);
WireResponse decode_response(ByteView payload, const Owner& owner = nullptr);

// Whether a response says that its request was for another generation.
bool is_replaced(ByteView response);
// The id that a request or response begins with; null if it begins with anything else.
std::optional<std::string> id_at_front(ByteView payload);
// The request id in the members of a control payload; WireError BAD_PAYLOAD when it breaks its rule (S-1).
std::string request_id_in(const Map& members);
bool is_request_id(std::string_view id);

}  // namespace speed::wire
