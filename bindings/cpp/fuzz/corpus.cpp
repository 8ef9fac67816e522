// speed-fuzz-corpus DIR: writes the vectors as inputs of the fuzzer, valid and invalid ones.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "decoders.hpp"
#include "segments.hpp"
#include "wire/cursor.hpp"

namespace {

using speed::Bytes;
using speed::ByteView;
using speed::fuzz::Decoder;
using speed::test::bytes_of;
using speed::test::Json;
using speed::test::vectors;

class Corpus {
 public:
  explicit Corpus(std::string directory) : directory_(std::move(directory)) {
    std::filesystem::create_directories(directory_);
  }

  void put(Decoder decoder, ByteView data) {
    std::ofstream file(directory_ + "/" + std::to_string(++written_), std::ios::binary);
    file << static_cast<char>(decoder) << speed::wire::text(data);
  }

  void put_all(Decoder decoder, const Json& cases, std::size_t without_last = 0) {
    for (const Json& item : cases) {
      const Bytes data = bytes_of(item["hex"]);
      put(decoder, ByteView(data).first(data.size() - std::min(without_last, data.size())));
    }
  }

  int written() const { return written_; }

 private:
  std::string directory_;
  int written_ = 0;
};

void put_envelopes(Corpus& corpus) {
  for (const char* validity : {"valid", "invalid"}) {
    for (const Json& item : speed::test::cases("envelopes", validity)) {
      Bytes data = bytes_of(item["envelope"]);
      corpus.put(Decoder::lane, data);
      if (!item.contains("payload")) continue;
      data.resize(speed::wire::limits::aad_bytes);
      speed::wire::append(data, bytes_of(item["payload"]));
      corpus.put(Decoder::envelope, data);
    }
  }
}

void put_files(Corpus& corpus) {
  const Json cursors = vectors("cursors");
  for (const std::string validity : {"valid", "invalid"}) {
    for (const Json& item : speed::test::cases("entries", validity)) {
      const Bytes content = bytes_of(item["content"]);
      corpus.put(Decoder::entry, ByteView(content.begin(), std::ranges::find(content, std::byte{'\n'})));
    }
    corpus.put_all(Decoder::cursor, cursors["cursors_" + validity], speed::wire::short_mac_bytes);
    corpus.put_all(Decoder::fence, cursors["fences_" + validity], speed::wire::short_mac_bytes);
    for (const Json& item : speed::test::cases("keys", validity)) {
      corpus.put(Decoder::key_file, speed::wire::view(item["text"].get<std::string>()));
    }
  }
}

void put_payloads(Corpus& corpus) {
  for (const char* validity : {"valid", "invalid"}) {
    corpus.put_all(Decoder::value, vectors("values")[validity]);
    corpus.put_all(Decoder::message, vectors("messages")[validity]);
    for (const Json& item : speed::test::cases("payloads", validity)) {
      const auto kind = item["kind"].get<std::string>();
      const Decoder other = kind == "response" ? Decoder::response : Decoder::control;
      corpus.put(kind == "request" ? Decoder::request : other, bytes_of(item["hex"]));
    }
  }
  for (const std::string content : {R"({"a": [1, -2, 3.5, "x", null, true], "b": {"c": "\u00e9"}})", "[[[[]]]]", "1e9"}) {
    corpus.put(Decoder::content, speed::wire::view("application/json" + std::string(1, '\0') + content));
  }
}

void put_names(Corpus& corpus) {
  const Json names = vectors("names");
  for (const char* list : {"valid_names", "invalid_names"}) {
    for (const Json& item : names[list]) corpus.put(Decoder::name, speed::wire::view(item["name"].get<std::string>()));
  }
  for (const Json& item : names["files"]) corpus.put(Decoder::name, speed::wire::view(item["file"].get<std::string>()));
}

// Segments one by one, and the shorter stories of their arrival.
void put_segments(Corpus& corpus) {
  for (const char* list : {"also_read", "invalid"}) corpus.put_all(Decoder::segment, vectors("segments")[list]);
  const auto cuts = speed::test::cuts();
  for (const auto& [name, cut] : cuts) corpus.put(Decoder::segment, cut.segments.back());
  for (const Json& story : speed::test::cases("segments", "arrivals")) {
    Bytes joined;
    for (const Json& arrival : story["arrivals"]) {
      const Bytes one =
          arrival.contains("hex") ? bytes_of(arrival["hex"]) : cuts.at(arrival["of"]).segments.at(arrival["slot"]);
      joined.resize(joined.size() + 2);
      speed::wire::store(joined.data() + joined.size() - 2, static_cast<std::uint16_t>(one.size()));
      speed::wire::append(joined, one);
    }
    corpus.put(Decoder::segments, joined);
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return 2;
  Corpus corpus(words[1]);
  put_envelopes(corpus);
  put_files(corpus);
  put_payloads(corpus);
  put_names(corpus);
  put_segments(corpus);
  std::cout << corpus.written() << " inputs\n";
  return 0;
}
