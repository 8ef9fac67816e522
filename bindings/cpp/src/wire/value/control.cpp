#include "wire/value/control.hpp"

#include <algorithm>

#include "speed/error.hpp"
#include "wire/value/spc.hpp"

namespace speed::wire {

namespace {

bool is_sequence(const Value& value) {
  const auto* const number = value.get_if<std::int64_t>();
  return value.get_if<std::uint64_t>() != nullptr || (number != nullptr && *number >= 0);
}

}  // namespace

Map decode_control(ByteView payload, std::size_t most_bytes) {
  if (payload.size() > most_bytes) {
    throw WireError("BAD_PAYLOAD", "a control payload of " + std::to_string(payload.size()) + " bytes; the limit is " +
                                       std::to_string(most_bytes));
  }
  Map members = unpack_map(payload, "control payload");
  const Value* const id = members.find("requestId");
  if (id != nullptr && !id->is_nil()) request_id_in(members);
  const Value* const sequence = members.find("sequence");
  if (sequence != nullptr && !sequence->is_nil() && !is_sequence(*sequence)) {
    throw WireError("BAD_PAYLOAD", "sequence is no 64-bit integer");
  }
  return members;
}

Bytes encode_ack(std::uint64_t sequence, bool waiting) {
  if (!waiting) return pack(Map{{"sequence", sequence}});
  return pack(Map{{"sequence", sequence}, {"waiting", true}});
}

Ack decode_ack(ByteView payload) {
  const Map members = decode_control(payload);
  const Value* const sequence = members.find("sequence");
  if (sequence == nullptr || sequence->is_nil()) throw WireError("BAD_PAYLOAD", "an ACK names no sequence");
  const Value* const waiting = members.find("waiting");
  return {sequence->as<std::uint64_t>(), waiting != nullptr && *waiting == Value(true)};
}

Bytes encode_refusal(std::string_view code, std::string_view message, std::uint64_t sequence) {
  return pack(Map{{"errorCode", code}, {"errorMessage", readable(message)}, {"sequence", sequence}});
}

bool is_look(EnvelopeType type, const Map& question) {
  return type == EnvelopeType::heartbeat || (type == EnvelopeType::discovery && text_of(question, "op") == "STATS");
}

std::vector<std::string> request_ids(const Map& members) {
  const Value* const listed = members.find("requestIds");
  const auto* const items = listed == nullptr ? nullptr : listed->get_if<Array>();
  if (items == nullptr || items->empty() || items->size() > limits::max_withdrawn_ids) {
    throw WireError("BAD_PAYLOAD", "requestIds is no list of 1 to 64 ids");
  }
  std::vector<std::string> ids;
  for (const Value& item : *items) {
    const auto* const id = item.get_if<std::string>();
    if (id == nullptr || !is_request_id(*id)) throw WireError("BAD_PAYLOAD", "requestIds holds what is no id");
    ids.push_back(*id);
  }
  return ids;
}

namespace {

void check_texts(const Value* listed, const char* what) {
  const auto* const items = listed == nullptr ? nullptr : listed->get_if<Array>();
  const bool sound = items != nullptr && std::ranges::all_of(*items, [](const Value& item) {
                       return item.get_if<std::string>() != nullptr;
                     });
  if (!sound)
    throw WireError("BAD_PAYLOAD", std::string("an answer to DISCOVERY lacks the list of texts '") + what + "'");
}

void check_descriptions(const Value* listed) {
  const auto* const items = listed == nullptr ? nullptr : listed->get_if<Array>();
  const bool sound = items != nullptr && std::ranges::all_of(*items, [](const Value& item) {
                       const auto* const one = item.get_if<Map>();
                       const Value* const name = one == nullptr ? nullptr : one->find("name");
                       return name != nullptr && name->get_if<std::string>() != nullptr;
                     });
  if (!sound) throw WireError("BAD_PAYLOAD", "an answer to DESCRIBE is no list of descriptions with names");
}

}  // namespace

Map checked_answer(std::string_view operation, Value answer) {
  auto* const map = std::get_if<Map>(&answer.storage());
  if (map == nullptr) throw WireError("BAD_PAYLOAD", "an answer to DISCOVERY is no map");
  if (operation == "SERVICES" || operation == "INFO") check_texts(map->find("services"), "services");
  if (operation == "DESCRIBE") check_descriptions(map->find("services"));
  if (operation != "STATS") return std::move(*map);
  for (const char* const part : {"counters", "services"}) {
    const Value* const rows = map->find(part);
    if (rows != nullptr && rows->get_if<Map>() != nullptr) continue;
    throw WireError("BAD_PAYLOAD", std::string("an answer to DISCOVERY lacks the map '") + part + "'");
  }
  return std::move(*map);
}

std::string text_of(const Map& members, std::string_view key) {
  const Value* const value = members.find(key);
  const auto* const text = value == nullptr ? nullptr : value->get_if<std::string>();
  return text == nullptr ? std::string() : *text;
}

}  // namespace speed::wire
