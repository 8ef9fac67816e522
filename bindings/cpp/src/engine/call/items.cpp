#include "engine/call/items.hpp"

#include "fs/bell.hpp"
#include "fs/process.hpp"
#include "speed/error.hpp"
#include "speed/interruption.hpp"
#include "wire/limits.hpp"
#include "wire/value/stream.hpp"

namespace speed::engine {

namespace {

constexpr Seconds wait_slice(0.1);  // how long a wait goes on before interruptions are looked at
constexpr std::size_t max_item_bytes = wire::limits::max_payload_bytes - wire::limits::max_head_bytes;

}  // namespace

std::exception_ptr ended(const StreamChannel& channel) {
  const Map running{{"phase", "running"}};
  const std::string broken = channel.broken();
  if (!broken.empty()) return std::make_exception_ptr(InternalError(broken, running));
  return std::make_exception_ptr(CallWithdrawnError("nobody waits for this stream any more", running));
}

std::optional<StreamChannel::Taken> ItemReader::next(std::optional<Value>& item, Seconds timeout) {
  while (at_ == batch_.size()) {
    if (items_ > 0) channel_.process(std::exchange(items_, 0), std::exchange(bytes_, 0));
    StreamChannel::Taken taken = channel_.take(timeout);
    if (taken.found != StreamChannel::Found::items) return taken;
    batch_ = wire::decode_items(taken.payload, wire::decode_stream(taken.payload));
    at_ = 0;
    items_ = taken.items;
    bytes_ = taken.bytes;
  }
  item = std::move(batch_[at_++]);
  return std::nullopt;
}

bool ItemWriter::put(const Value& item) {
  const Bytes packed = wire::pack(item, "item");
  if (packed.size() > max_item_bytes) {
    throw PayloadTooLargeError("an item of " + std::to_string(packed.size()) + " bytes; the limit is " +
                               std::to_string(max_item_bytes) + ": give it in parts");
  }
  if (!reserve(packed.size())) return false;
  add(packed);
  return true;
}

bool ItemWriter::wait_for_begin() { return reserve(0); }

bool ItemWriter::reserve(std::uint64_t bytes) {
  while (true) {
    check();
    const StreamChannel::Reserved reserved = channel_.reserve(bytes, wait_slice);
    if (reserved != StreamChannel::Reserved::nothing) return reserved == StreamChannel::Reserved::credit;
    look_for_interruption();
  }
}

void ItemWriter::check() {
  const MutexLock guard(lock_);
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void ItemWriter::add(ByteView packed) {
  bool is_full = false;
  {
    const MutexLock guard(lock_);
    is_full = packed_.size() > 0 && packed_.size() + packed.size() > wire::limits::stream_envelope_bytes;
  }
  if (is_full) flush(false);
  {
    const MutexLock guard(lock_);
    packed_.append(packed);
    ++items_;
    if (std::exchange(rests_, false)) changed_.notify_all();
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void ItemWriter::finish(bool last) {
  check();
  flush(last);
  stop();
}

void ItemWriter::stop() noexcept {
  if (fork_mark_->is_copied()) {  // the thread stayed with the parent
    if (thread_.joinable()) new std::thread(std::move(thread_));  // NOLINT: kept for ever on purpose
    return;
  }
  {
    const MutexLock guard(lock_);
    is_over_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();  // what it waits for, a write, has a bound
}

void ItemWriter::run() {
  fs::block_signals();
  fs::name_thread("speed-stream");
  try {
    while (has_items()) flush(false);
  } catch (...) {
    {
      const MutexLock guard(lock_);
      error_ = std::current_exception();
    }
    channel_.close();
  }
}

// Waits for some; false at the end.
bool ItemWriter::has_items() {
  UniqueLock guard(lock_);
  rests_ = items_ == 0;
  changed_.wait(guard, [&]() SPEED_REQUIRES(lock_) { return items_ > 0 || is_over_; });
  return !is_over_;
}

void ItemWriter::flush(bool last) {
  const MutexLock sending(sending_);
  wire::Buffer packed;
  std::uint32_t items = 0;
  {
    const MutexLock guard(lock_);
    packed = std::move(packed_);
    packed_ = wire::Buffer();
    items = std::exchange(items_, 0);
  }
  if (items == 0 && !last) return;
  wire::Buffer envelope;
  envelope.reserve(packed.size() + wire::limits::max_request_id_bytes + 64);
  wire::encode_items_front(channel_.request_id(), number_, items, last, envelope);
  envelope.append(packed.view());
  channel_.write(envelope.view());
  number_ += items;
}

}  // namespace speed::engine
