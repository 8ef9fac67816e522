#include "engine/remote/peer.hpp"

#include "engine/call/calling.hpp"
#include "engine/link/publishing.hpp"
#include "engine/span.hpp"
#include "fs/clock.hpp"
#include "wire/names/names.hpp"

namespace speed::engine {

namespace {

// A node of this root.
class LocalPeer final : public Peer {
 public:
  using Peer::Peer;

  Value call(const std::string& service, const Map& arguments, const CallOptions& options) const override {
    return engine::call(node_, name_, service, arguments, options);
  }

  void start(const std::string& service, const Map& arguments, const CallOptions& options,
             core::Completion completion) const override {
    const Duration timeout = duration_of("timeout", options.timeout);
    start_call(node_, {name_, service, arguments, timeout, options.traceparent}, options.stop, std::move(completion));
  }

  core::Outcome outcome(core::Outcome answer) const override { return answer; }

  std::shared_ptr<StreamChannel> open_stream(const std::string& service, const Map& arguments,
                                             const CallOptions& options, const StreamOffer& offer) const override {
    const Duration timeout = duration_of("timeout", options.timeout);
    auto channel = node_.calls.open_stream({name_, service, arguments, timeout, options.traceparent, offer},
                                           node_.weak_from_this());
    node_.workers.ensure_reader();
    return channel;
  }

  std::string send(const Value& payload, const SendOptions& options) const override {
    return node_.send(name_, payload, options).id;
  }

  void send_encoded(ByteView message, const SendOptions& options) const override {
    node_.send_message(name_, segment::MemorySource(message), options, {});
  }

  void send_all(const std::vector<Value>& payloads, const SendOptions& options) const override {
    const TimePoint deadline = fs::monotonic_now() + duration_of("timeout", options.timeout);
    wire::Buffer encoded = node_.context.buffers.take();
    std::vector<std::size_t> ends;
    wire::MessageFields fields = node_.fields_of(options);
    for (const Value& payload : payloads) {
      node_.stamp(fields);
      node_.encode(payload, fields, options.protection, encoded);
      ends.push_back(encoded.size());
      if (!is_full(ends.size(), encoded.size()) && &payload != &payloads.back()) continue;
      write_together(encoded, ends, deadline);
      encoded.clear();
      ends.clear();
    }
    node_.context.buffers.give(std::move(encoded));
  }

  std::string send_large(const segment::Source& payload, const SendOptions& options,
                         const Progress& progress) const override {
    return node_.send_large(name_, payload, options, progress).id;
  }

  void segment(std::optional<std::size_t> segment_size, double parity_rate) const override {
    wire::check_node_name(name_);
    std::shared_ptr<const segment::Splitter> splitter;
    if (segment_size) splitter = std::make_shared<const segment::Splitter>(link_splitter(*segment_size, parity_rate));
    node_.links.cut(name_, std::move(splitter));
  }

  void ping(Seconds timeout) const override { ask(node_, name_, wire::EnvelopeType::heartbeat, {}, timeout); }

  Map discover(const char* operation, Seconds timeout) const override {
    return engine::discover(node_, name_, operation, timeout);
  }

 private:
  // Sends the messages in `encoded`, which end at `ends`.
  void write_together(const wire::Buffer& encoded, const std::vector<std::size_t>& ends, TimePoint deadline) const {
    std::vector<ByteView> payloads;
    std::size_t start = 0;
    for (const std::size_t end : ends) {
      payloads.push_back(encoded.view().subspan(start, end - start));
      start = end;
    }
    node_.links.granted(name_, deadline)->send({wire::EnvelopeType::message, 0, payloads, deadline});
  }
};

}  // namespace

PeerPtr peer_of(Runtime& node, const std::string& name, const std::optional<std::string>& key) {
  if (wire::is_family(name)) return family_peer(node, name, key);
  if (key) throw ConfigurationError("a key chooses among the nodes of a family: name one, such as 'pricing.*'");
  if (wire::is_remote(name)) return gateway_peer(node, name);
  return std::make_shared<const LocalPeer>(node, name);
}

}  // namespace speed::engine
