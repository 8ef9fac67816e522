// speed-bench-segment [MEGABYTES]: how fast payloads are cut, with parity and without, and put together again.
// Bytes of the payload in MB a second of processor time. The hash is one sequence: it bounds what one thread can cut.
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include "segment/parity.hpp"
#include "speed/segment.hpp"

namespace {

using speed::Bytes;
using speed::ByteView;
using namespace speed::segment;

constexpr std::size_t segment_size = 1 << 20;

double processor_seconds() {
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
}

// The best of a few rounds.
template <class Work>
void measure(const char* what, std::size_t bytes, const Work& work) {
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const double began = processor_seconds();
    work();
    best = std::min(best, processor_seconds() - began);
  }
  std::printf("%-24s %7.0f MB/s\n", what, static_cast<double>(bytes) / best / 1e6);
}

void measure_parity(const Bytes& payload, unsigned data_count, unsigned parity_count) {
  const std::size_t width = payload.size() / data_count / shard_unit * shard_unit;
  std::vector<Bytes> room(parity_count, Bytes(width));
  std::vector<const std::byte*> data;
  std::vector<std::byte*> parity;
  for (std::size_t index = 0; index < data_count; ++index) data.push_back(payload.data() + index * width);
  for (Bytes& shard : room) parity.push_back(shard.data());
  Encoder encoder(data_count, parity_count);
  const std::string what = "parity " + std::to_string(data_count) + " + " + std::to_string(parity_count);
  measure(what.c_str(), data_count * width, [&] { encoder.encode(data, parity, width); });
}

void measure_rebuild(const char* what, const std::vector<Bytes>& segments, std::size_t first, std::size_t bytes) {
  measure(what, bytes, [&] {
    Assembler assembler;
    for (std::size_t slot = first; slot < segments.size(); ++slot) {
      if (assembler.receive("sender", segments[slot], 0).payload) return;
    }
    std::abort();
  });
}

}  // namespace

int main(int count, char** words) {
  const std::size_t megabytes = count > 1 ? std::strtoul(words[1], nullptr, 10) : 64;
  Bytes payload(megabytes << 20);
  std::mt19937 random(1);
  for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
  measure("hash", payload.size(), [&] { keccak256(payload); });
  for (const auto& [data_count, parity_count] : {std::pair{10U, 2U}, {64U, 8U}, {200U, 25U}, {226U, 28U}}) {
    measure_parity(payload, data_count, parity_count);
  }
  const auto nothing = [](const Segment&) {};
  measure("cut", payload.size(), [&] { Splitter(segment_size, 0).split(payload, nothing); });
  measure("cut, parity 1/8", payload.size(), [&] { Splitter(segment_size).split(payload, nothing); });
  std::vector<Bytes> segments;
  Splitter(segment_size).split(payload, [&](const Segment& one) { segments.push_back(write_segment(one)); });
  measure_rebuild("rebuild", segments, 0, payload.size());
  const std::size_t data_count = megabytes;
  measure_rebuild("rebuild, parity 1/8", segments, segments.size() - data_count, payload.size());
  return 0;
}
