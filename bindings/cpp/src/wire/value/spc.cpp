#include "wire/value/spc.hpp"

#include <algorithm>
#include <array>

#include "speed/error.hpp"
#include "wire/names/names.hpp"

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
  if (id == nullptr || !is_request_id(*id)) refuse("requestId is no text of 1 to 64 bytes");
  return *id;
}

namespace {

// Up to where the arguments follow.
void encode_head(const RequestHead& head, Buffer& out) {
  const Deadline& deadline = head.deadline;
  const bool knows_boot = !deadline.boot_id.empty();
  pack_map_header(
      6 + (knows_boot ? 2 : 0) + (head.traceparent ? 1 : 0) + (head.stream ? 1 : 0) + (head.repeated ? 1 : 0), out);
  pack_text("requestId", out);
  pack_text(head.request_id, out);
  pack_text("service", out);
  pack_text(head.service, out);
  pack_text("caller", out);
  pack_text(head.caller, out);
  pack_text("generation", out);
  pack_integer(std::uint64_t{head.generation}, out);
  pack_text("deadline", out);
  pack_integer(static_cast<std::uint64_t>(deadline.unix_ms), out);
  if (knows_boot) {
    pack_text("bootId", out);
    pack_text(deadline.boot_id, out);
    pack_text("bootDeadline", out);
    pack_integer(static_cast<std::uint64_t>(deadline.boot_ms), out);
  }
  if (head.traceparent) {
    pack_text("traceparent", out);
    pack(*head.traceparent, out, "traceparent");
  }
  if (head.stream) {
    pack_text("stream", out);
    pack(as_map(*head.stream), out, "stream");
  }
  if (head.repeated) {
    pack_text("repeated", out);
    pack(Value(true), out, "repeated");
  }
  pack_text("arguments", out);
}

}  // namespace

void encode_request(const RequestHead& head, const Map& arguments, Buffer& out) {
  if (!has_text_keys(arguments)) throw UnserialisableError("arguments has a name that is no text");
  check_service_name(head.service);
  encode_head(head, out);
  pack(arguments, out, "arguments");
}

void encode_again(ByteView request, std::uint32_t generation, bool repeated, Buffer& out) {
  RequestHead head = decode_head(request);
  head.generation = generation;
  head.repeated = head.repeated || repeated;
  encode_head(head, out);
  out.append(request.subspan(head.arguments_at));
}

Map decode_arguments(ByteView payload, const RequestHead& head, const Owner& owner) {
  Value value = unpack(payload.subspan(head.arguments_at), "arguments", 1, owner);
  auto* const arguments = std::get_if<Map>(&value.storage());
  if (arguments == nullptr || !has_text_keys(*arguments)) refuse("arguments is no map with text keys");
  return std::move(*arguments);
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

namespace {

// The details as they travel; empty, and `why` says it, if they cannot.
Bytes written(const Map& details, std::string& why) {
  if (details.empty()) return {};
  try {
    Buffer out;
    pack(details, out, "details");
    if (out.size() <= limits::max_details_bytes) return {out.view().begin(), out.view().end()};
    why = " (its details are too large and left out: " + std::to_string(out.size()) + " bytes)";
  } catch (const UnserialisableError&) {
    why = " (its details have no representation and are left out)";
  }
  return {};
}

}  // namespace

bool is_call_code(std::string_view code) {
  static constexpr std::array<std::string_view, 10> known = {
      "SERVICE_NOT_FOUND", "ACCESS_DENIED", "INVALID_ARGUMENTS", "EXECUTION_FAILED", "TIMEOUT",
      "INTERNAL_ERROR",    "SEGMENTS_LOST", "WITHDRAWN",         "LEAVING",          "REPLACED"};
  return std::ranges::find(known, code) != known.end();
}

namespace {

constexpr std::string_view application_prefix = "app/";
constexpr std::size_t max_application_code = 64;
constexpr std::size_t max_shown_code = 80;

bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }

}  // namespace

bool is_application_code(std::string_view code) {
  if (code.empty() || code.size() > max_application_code || !is_capital(code.front())) return false;
  return std::ranges::all_of(code, [](char c) { return is_capital(c) || (c >= '0' && c <= '9') || c == '_'; });
}

std::string travelling(std::string_view code) { return std::string(application_prefix).append(code); }

std::string refused_code(std::string_view code) {
  return "error code '" + readable_characters(code, max_shown_code) +
         "' cannot be used: take a capital letter, then up to 63 of A-Z, 0-9 and _, or one of SPEED's";
}

std::optional<std::string> application_code(std::string_view travelled) {
  if (!travelled.starts_with(application_prefix)) return std::nullopt;
  travelled.remove_prefix(application_prefix.size());
  return is_application_code(travelled) ? std::optional<std::string>(travelled) : std::nullopt;
}

void encode_error(const std::string& request_id, std::string_view code, std::string_view message, const Map& details,
                  Buffer& out) {
  std::string left_out;
  const Bytes detailed = written(details, left_out);
  if (code.empty()) left_out += " (an error without a code)";
  pack_map_header(detailed.empty() ? 4 : 5, out);
  pack_text("requestId", out);
  pack_text(request_id, out);
  pack_text("status", out);
  pack_text("ERROR", out);
  pack_text("errorCode", out);
  pack_text(code.empty() ? "INTERNAL_ERROR" : readable_characters(code, limits::max_error_characters), out);
  pack_text("errorMessage", out);
  pack_text(readable_characters(message, limits::max_error_characters - left_out.size()) + left_out, out);
  if (detailed.empty()) return;
  pack_text("details", out);
  out.append(detailed);
}

// Asked for each answer by the thread that reads: nothing is decoded of most.
bool is_replaced(ByteView response) {
  constexpr std::size_t most_bytes = 4096;
  if (response.size() > most_bytes || text(response).find("REPLACED") == std::string_view::npos) return false;
  try {
    return decode_response(response).error_code == "REPLACED";
  } catch (const WireError&) {
    return false;
  }
}

WireResponse decode_response(ByteView payload, const Owner& owner) {
  const std::optional<std::string> id = id_at_front(payload);
  if (!id) refuse("a response does not begin with a requestId of 1 to 64 bytes");
  Map members = unpack_map(payload, "response", owner);
  WireResponse response;
  response.request_id = *id;
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
