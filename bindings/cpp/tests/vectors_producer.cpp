// speed-vectors: writes what this implementation makes of the fixed inputs of registry_spec/vectors, in their format,
// so that the others can accept it: envelopes, entries, cursors, values.
#include <iostream>

#include "vectors.hpp"
#include "wire/cursor.hpp"
#include "wire/entry.hpp"
#include "wire/seal.hpp"
#include "wire/value_codec.hpp"

namespace {

using namespace speed;
using test::Json;

Json envelopes() {
  const Json given = test::vectors("envelopes");
  const wire::NodeId source = wire::node_id(given["source"].get<std::string>());
  const wire::NodeId target = wire::node_id(given["target"].get<std::string>());
  Json made = Json::array();
  for (Json item : given["valid"]) {
    const wire::Keyring keyring({test::block_of<32>(item["key"])});
    const std::uint64_t sequence = test::number_of(item["sequence"]);
    const Bytes payload = test::bytes_of(item["payload"]);
    wire::Buffer out;
    wire::LinkSealer(keyring, source, target, wire::generation_of(sequence))
        .seal(static_cast<wire::EnvelopeType>(item["type"].get<int>()), item["flags"].get<std::uint16_t>(),
              wire::counter_of(sequence), item["timestamp_ms"].get<std::uint64_t>(), payload,
              test::block_of<12>(item["nonce"]), out);
    item["envelope"] = wire::to_hex(out.view());
    made.push_back(item);
  }
  return {{"source", given["source"]}, {"target", given["target"]}, {"accepted_keys", given["accepted_keys"]},
          {"valid", made}, {"invalid", Json::array()}};
}

Json entries() {
  const Json given = test::vectors("entries");
  const wire::Keyring keyring(test::keys_of(given["accepted_keys"]));
  Json made = Json::array();
  for (Json item : given["valid"]) {
    std::string content(wire::text(ByteView(test::bytes_of(item["content"]))));
    content.resize(item["bytes"].get<std::size_t>(), ' ');
    const wire::Entry entry = wire::decode_entry(content, keyring.registry_keys());
    item["content"] = wire::to_hex(wire::view(wire::encode_entry(entry, keyring.registry_keys()[0])));
    made.push_back(item);
  }
  return {{"accepted_keys", given["accepted_keys"]}, {"valid", made}, {"invalid", Json::array()}};
}

Json values() {
  Json made = Json::array();
  for (Json item : test::cases("values", "valid")) {
    item["hex"] = wire::to_hex(wire::pack(test::value_of(item["value"])));
    made.push_back(item);
  }
  return Json::object({{"valid", made}});
}

// Requests, responses and control payloads are maps: the codec of values writes them.
Json payloads() {
  Json made = Json::array();
  for (Json item : test::cases("payloads", "valid")) {
    item["hex"] = wire::to_hex(wire::pack(test::value_of(item["fields"])));
    made.push_back(item);
  }
  return Json::object({{"valid", made}});
}

}  // namespace

int main() {
  const Json all{{"envelopes", envelopes()}, {"entries", entries()}, {"values", values()}, {"payloads", payloads()}};
  std::cout << all.dump(1) << "\n";
  return 0;
}
