// speed-bench-segment [MEGABYTES]: how fast payloads are cut, with parity and without, and put together again.
// Bytes of the payload in MB a second of processor time. The hash is one sequence and bounds what one thread can cut:
// cutting stands also without it.
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
  std::printf("%-44s %7.0f MB/s\n", what, static_cast<double>(bytes) / best / 1e6);
}

void measure_parity(const Bytes& payload, unsigned data_count, unsigned parity_count) {
  const std::size_t width = payload.size() / data_count / shard_unit * shard_unit;
  std::vector<Bytes> room(parity_count, Bytes(width));
  std::vector<const std::byte*> data;
  std::vector<std::byte*> parity;
  for (std::size_t index = 0; index < data_count; ++index) data.push_back(payload.data() + index * width);
  for (Bytes& shard : room) parity.push_back(shard.data());
  Encoder encoder(data_count, parity_count);
  const std::string what = "parity alone, " + std::to_string(data_count) + " + " + std::to_string(parity_count);
  measure(what.c_str(), data_count * width, [&] { encoder.encode(data, parity, width); });
}

// `known` is the payload's hash where that is not to be measured.
void measure_cut(const char* what, const Bytes& payload, double parity_rate, const std::optional<Hash>& known) {
  const MemorySource source(payload);
  const Shape shape = Splitter(segment_size, parity_rate).shape(payload.size());
  measure(what, payload.size(), [&] { cut(source, shape, [](const Segment& one) { write_segment(one); }, known); });
}

void measure_rebuild(const char* what, const std::vector<Bytes>& segments, std::size_t first, std::size_t bytes) {
  measure(what, bytes, [&] {
    Assembler assembler;
    for (std::size_t slot = first; slot < segments.size(); ++slot) {
      if (assembler.receive("sender", segments[slot], {}).payload) return;
    }
    std::abort();
  });
}

}  // namespace

int main(int count, char** words) {
  const std::size_t megabytes = count > 1 ? std::strtoul(words[1], nullptr, 10) : 64;
  Bytes payload(megabytes * 1'000'000);
  std::mt19937 random(1);
  for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
  const Hash hash = keccak256(payload);
  measure("Keccak-256 alone", payload.size(), [&] { keccak256(payload); });
  measure_cut("segments, no parity, hash apart", payload, 0, hash);
  measure_cut("segments, no parity, with the hash", payload, 0, {});
  for (const auto& [data_count, parity_count] : {std::pair{64U, 8U}, {224U, 28U}, {226U, 28U}}) {
    measure_parity(payload, data_count, parity_count);
  }
  measure_cut("segments with parity 0.125, hash apart", payload, 0.125, hash);
  measure_cut("segments with parity 0.125 and the hash", payload, 0.125, {});
  std::vector<Bytes> segments;
  Splitter(segment_size).split(payload, [&](const Segment& one) { segments.push_back(write_segment(one)); });
  measure_rebuild("put together, nothing lost", segments, 0, payload.size());
  const std::size_t lost = read_segment(segments[0]).parity_count;
  measure_rebuild("put together, an eighth lost", segments, lost, payload.size());
  return 0;
}
