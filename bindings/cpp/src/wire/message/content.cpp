#include "wire/message/content.hpp"

#include "speed/error.hpp"
#include "wire/limits.hpp"
#include "wire/message/fields.hpp"
#include "wire/value/json.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

namespace {

constexpr std::string_view msgpack_type = "application/msgpack";
constexpr std::string_view text_type = "text/plain";
constexpr std::string_view bytes_type = "application/octet-stream";
constexpr std::string_view json_type = "application/json";

[[noreturn]] void refuse(std::string_view media_type) {
  throw WireError("BAD_MESSAGE", "payload: is not valid " + std::string(media_type));
}

Value value_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) return json.get<std::uint64_t>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    Array items;
    for (const Json& item : json) items.push_back(value_of(item));
    return items;
  }
  if (!json.is_object()) return {};
  std::vector<Member> members;
  for (const auto& [key, item] : json.items()) members.push_back({key, value_of(item)});
  return Map::from_pairs(std::move(members));
}

Value decode_json(ByteView data) {
  const std::optional<Json> json = parse_json(text(data), limits::max_json_depth);
  if (!json) refuse(json_type);
  return value_of(*json);
}

Value decode_msgpack(ByteView data) {
  try {
    return unpack(data);
  } catch (const WireError&) {
    refuse(msgpack_type);
  }
}

}  // namespace

std::string_view media_type_of(const Value& payload) {
  if (payload.get_if<std::string>() != nullptr) return text_type;
  return bytes_in(payload) ? bytes_type : msgpack_type;
}

void encode_content(const Value& payload, Buffer& out) {
  if (const auto bytes = bytes_in(payload)) {
    out.append(*bytes);
  } else if (const auto* characters = payload.get_if<std::string>()) {
    if (!is_utf8(*characters)) throw UnserialisableError("payload is text that is not UTF-8: use Bytes");
    out.append(view(*characters));
  } else {
    pack(payload, out, "payload");
  }
}

Value decode_content(std::string_view media_type, ByteView data) {
  if (media_type == msgpack_type) return decode_msgpack(data);
  if (media_type == json_type) return decode_json(data);
  if (media_type != text_type) return Bytes(data.begin(), data.end());
  if (!is_utf8(text(data))) refuse(text_type);
  return text(data);
}

std::string content_type_text(int number, const std::string& custom) {
  switch (number) {
    case proto::content_type::unspecified: return std::string(bytes_type);
    case proto::content_type::protobuf: return "application/protobuf";
    case proto::content_type::json: return std::string(json_type);
    case proto::content_type::avro: return "application/avro";
    case proto::content_type::custom: return custom;
    default: return "unknown/" + std::to_string(number);
  }
}

std::string content_encoding_text(int number, const std::string& custom) {
  if (number == proto::content_encoding::custom) return custom;
  for (const auto& [known, name] : proto::content_encoding::names) {
    if (known == number) return std::string(name);
  }
  return "unknown/" + std::to_string(number);
}

}  // namespace speed::wire
