// speed-fuzz-corpus DIR: writes the vectors as inputs of the fuzzer, valid and invalid ones.
#include <filesystem>
#include <iostream>

#include "vectors.hpp"

namespace {

using speed::test::Json;

int written = 0;

void put(const std::string& directory, char decoder, const speed::Bytes& data) {
  std::ofstream file(directory + "/" + std::to_string(++written), std::ios::binary);
  file << decoder << speed::wire::text(speed::ByteView(data));
}

void put_all(const std::string& directory, char decoder, const Json& cases, const char* field) {
  for (const Json& item : cases) put(directory, decoder, speed::test::bytes_of(item[field]));
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return 2;
  const std::string directory = words[1];
  std::filesystem::create_directories(directory);
  for (const char* validity : {"valid", "invalid"}) {
    put_all(directory, 0, speed::test::vectors("envelopes")[validity], "envelope");
    put_all(directory, 1, speed::test::vectors("entries")[validity], "content");
    put_all(directory, 2, speed::test::vectors("cursors")[std::string("cursors_") + validity], "hex");
    put_all(directory, 3, speed::test::vectors("values")[validity], "hex");
    put_all(directory, 7, speed::test::vectors("messages")[validity], "hex");
    for (const Json& item : speed::test::cases("payloads", validity)) {
      const auto kind = item["kind"].get<std::string>();
      put(directory, kind == "request" ? 4 : kind == "response" ? 5 : 6, speed::test::bytes_of(item["hex"]));
    }
  }
  std::cout << written << " inputs\n";
  return 0;
}
