// What the fuzzer reads: the first byte of an input chooses one of these, the rest is the decoder's.
// The order is that of tests/interop/corpus.py: the fuzzers of all languages share their corpus.
#pragma once

#include <cstdint>

namespace speed::fuzz {

enum class Decoder : std::uint8_t {
  lane,      // bytes of a segment as they are
  envelope,  // both headers, then a plaintext: sealed first, or nothing behind the tag is reached
  entry,     // line 1 of an entry; its MAC is made
  cursor,    // a cursor without its MAC, which is made
  fence,     // likewise
  value,
  request,
  response,
  control,
  message,
  content,  // a media type, a NUL, then the bytes of a payload
  key_file,
  name,  // a name, grant, topic or file name
  segment,
  segments,  // several, each behind its length in two bytes, as they arrive
  front,     // a message whose payload lies in a store
  protected_,  // a message that is signed, encrypted or compressed, opened by a node of the vectors' keys
  topic,       // a message of a durable topic
};
inline constexpr unsigned decoders = 18;

}  // namespace speed::fuzz
