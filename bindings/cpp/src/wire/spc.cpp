#include "wire/spc.hpp"

#include "speed/error.hpp"
#include "wire/names.hpp"

namespace speed::wire {

namespace {

[[noreturn]] void refuse(const char* why) { throw WireError("BAD_PAYLOAD", why); }

const std::string* text_in(const Map& members, std::string_view key) {
  const Value* const value = members.find(key);
  return value == nullptr ? nullptr : value->get_if<std::string>();
}

bool is_absent(const Map& members, std::string_view key) {
  const Value* const value = members.find(key);
  return value == nullptr || value->is_nil();
}

bool has_text_keys(const Map& map) {
  for (const Member& member : map) {
    if (member.key.get_if<std::string>() == nullptr) return false;
  }
  return true;
}

}  // namespace

std::string request_id_in(const Map& members) {
  const std::string* const id = text_in(members, "requestId");
  if (id == nullptr || id->empty() || id->size() > limits::max_request_id_bytes) {
    refuse("requestId is no text of 1 to 64 bytes");
  }
  return *id;
}

void encode_request(const std::string& request_id, const std::string& service, const Map& arguments,
                    const std::string& caller, std::int64_t deadline_ms, const std::optional<std::string>& traceparent,
                    Buffer& out) {
  if (!has_text_keys(arguments)) throw UnserialisableError("arguments has a name that is no text");
  check_service_name(service);
  pack_map_header(traceparent ? 6 : 5, out);
  pack_text("requestId", out);
  pack_text(request_id, out);
  pack_text("service", out);
  pack_text(service, out);
  pack_text("arguments", out);
  pack(arguments, out, "arguments");
  pack_text("caller", out);
  pack_text(caller, out);
  pack_text("deadline", out);
  pack_integer(static_cast<std::uint64_t>(deadline_ms), out);
  if (!traceparent) return;
  pack_text("traceparent", out);
  pack(*traceparent, out, "traceparent");
}

WireRequest decode_request(ByteView payload) {
  Map members = unpack_map(payload, "request");
  WireRequest request;
  request.request_id = request_id_in(members);
  const std::string* const service = text_in(members, "service");
  const std::string* const caller = text_in(members, "caller");
  if (service == nullptr || caller == nullptr || !is_service_name(*service) || !is_node_name(*caller)) {
    refuse("service or caller is no name");
  }
  const Value* const arguments = members.find("arguments");
  const Map* const map = arguments == nullptr ? nullptr : arguments->get_if<Map>();
  if (map == nullptr || !has_text_keys(*map)) refuse("arguments is no map with text keys");
  const Value* const deadline = members.find("deadline");
  const auto* const time = deadline == nullptr ? nullptr : deadline->get_if<std::int64_t>();
  if (time == nullptr || *time < 0) refuse("deadline is no Unix time in ms");
  if (!is_absent(members, "traceparent")) {
    const std::string* const traceparent = text_in(members, "traceparent");
    if (traceparent == nullptr) refuse("traceparent is no text");
    request.traceparent = *traceparent;
  }
  request.service = *service;
  request.caller = *caller;
  request.deadline_ms = *time;
  request.arguments = std::move(const_cast<Map&>(*map));  // `members` is ours and ends here
  return request;
}

void encode_success(const std::string& request_id, const Value& result, Buffer& out) {
  pack_map_header(3, out);
  pack_text("requestId", out);
  pack_text(request_id, out);
  pack_text("status", out);
  pack_text("SUCCESS", out);
  pack_text("result", out);
  pack(result, out, "result");
}

// An error must reach its caller whatever it quotes.
void encode_error(const std::string& request_id, std::string_view code, const std::string& message, const Map& details,
                  Buffer& out) {
  Map response{{"requestId", request_id}, {"status", "ERROR"}, {"errorCode", readable(code)}, {"errorMessage", readable(message)}};
  if (!details.empty()) {
    Map detailed = response;
    detailed.set("details", details);
    try {
      out.append(pack(detailed, "response"));
      return;
    } catch (const UnserialisableError&) {
      // The error itself matters more than what it carries.
    }
  }
  pack(response, out, "response");
}

WireResponse decode_response(ByteView payload) {
  Map members = unpack_map(payload, "response");
  WireResponse response;
  response.request_id = request_id_in(members);
  const std::string* const status = text_in(members, "status");
  response.ok = status != nullptr && *status == "SUCCESS";
  if (response.ok) {
    const Value* const result = members.find("result");
    if (result != nullptr) response.result = std::move(const_cast<Value&>(*result));  // `members` is ours
    return response;
  }
  if (status == nullptr || *status != "ERROR") refuse("status is neither SUCCESS nor ERROR");
  const std::string* const code = text_in(members, "errorCode");
  if (code == nullptr || code->empty()) refuse("errorCode is no text");
  response.error_code = *code;
  if (members.find("errorMessage") != nullptr) {
    const std::string* const message = text_in(members, "errorMessage");
    if (message == nullptr) refuse("errorMessage is no text");
    response.error_message = *message;
  }
  if (!is_absent(members, "details")) {
    const Map* const details = members.find("details")->get_if<Map>();
    if (details == nullptr) refuse("details is no map");
    response.details = *details;
  }
  return response;
}

}  // namespace speed::wire
