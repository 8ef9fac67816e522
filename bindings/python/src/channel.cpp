#include "channel.hpp"

#include "convert.hpp"
#include "gil.hpp"

namespace speed::python {

namespace {

nb::object amount(double number, bool whole) {
  return whole ? nb::object(nb::int_(static_cast<std::int64_t>(number))) : nb::object(nb::float_(number));
}

nb::object progress_in(const StreamProgress& progress) {
  const nb::object total = progress.total ? amount(*progress.total, progress.whole_total) : nb::none();
  return nb::make_tuple(amount(progress.done, progress.whole_done), total,
                        nb::str(progress.note.data(), progress.note.size()));
}

}  // namespace

nb::tuple Channel::take(double timeout) {
  StreamChannel::Taken taken;
  {
    const Released released;
    taken = channel_->take(Seconds(timeout));
  }
  nb::object payload = nb::none();
  if (taken.found == StreamChannel::Found::progress) payload = progress_in(taken.progress);
  if (taken.found == StreamChannel::Found::items) payload = bytes_of(taken.payload);
  return nb::make_tuple(static_cast<int>(taken.found), payload, taken.items, taken.bytes);
}

void Channel::process(std::uint64_t items, std::uint64_t bytes) {
  const Released released;
  channel_->process(items, bytes);
}

void Channel::open() {
  const Released released;
  channel_->open();
}

// What waits for nothing keeps the interpreter lock: it is asked for each item.
int Channel::reserve(std::uint64_t bytes, double timeout) {
  if (timeout <= 0) return static_cast<int>(channel_->reserve(bytes, Seconds::zero()));
  const Released released;
  return static_cast<int>(channel_->reserve(bytes, Seconds(timeout)));
}

void Channel::write(const nb::bytes& payload) {
  const ByteView view(static_cast<const std::byte*>(payload.data()), payload.size());
  const Released released;
  channel_->write(view);
}

void Channel::report(nb::handle done, nb::handle total, const std::string& note) {
  StreamProgress progress;
  progress.done = nb::cast<double>(done);
  progress.whole_done = nb::isinstance<nb::int_>(done);
  progress.whole_total = nb::isinstance<nb::int_>(total);
  if (!total.is_none()) progress.total = nb::cast<double>(total);
  progress.note = note;
  const Released released;
  channel_->report(progress);
}

void Channel::close() {
  const Released released;
  channel_->close();
}

nb::object Channel::outcome() {
  const Value value = [&] {
    const Released released;
    return channel_->outcome();
  }();
  return to_object(value);
}

void Channel::withdraw() {
  const Released released;
  channel_->withdraw();
}

}  // namespace speed::python
