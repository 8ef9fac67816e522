// SPC payloads: requests and responses as msgpack maps with the RFC's names (S-1, S-2).
#pragma once

#include <optional>
#include <string>

#include "wire/value_codec.hpp"

namespace speed::wire {

// One request as received; `deadline_ms` is Unix time.
struct WireRequest {
  std::string request_id;
  std::string service;
  Map arguments;
  std::string caller;
  std::int64_t deadline_ms = 0;
  std::optional<std::string> traceparent;
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

// These append to `out`; UnserialisableError names the argument or part without a representation.
void encode_request(const std::string& request_id, const std::string& service, const Map& arguments,
                    const std::string& caller, std::int64_t deadline_ms, const std::optional<std::string>& traceparent,
                    Buffer& out);
void encode_success(const std::string& request_id, const Value& result, Buffer& out);
void encode_error(const std::string& request_id, std::string_view code, const std::string& message, const Map& details,
                  Buffer& out);

// These throw WireError BAD_PAYLOAD that names the field.
WireRequest decode_request(ByteView payload);
WireResponse decode_response(ByteView payload);

// The request id in the members of a payload; WireError BAD_PAYLOAD when it breaks its rule (S-1).
std::string request_id_in(const Map& members);

}  // namespace speed::wire
