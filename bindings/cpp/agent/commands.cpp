#include "commands.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "decoding.hpp"
#include "speed/message_error.hpp"

namespace agent {

namespace {

using Clock = std::chrono::steady_clock;

std::string text(const Json& command, const char* key) { return command.at(key).get<std::string>(); }

double seconds(const Json& command, double otherwise) {
  const auto found = command.find("timeout");
  return found == command.end() || found->is_null() ? otherwise : found->get<double>();
}

std::optional<std::string> optional_text(const Json& command, const char* key) {
  const auto found = command.find(key);
  return found == command.end() || found->is_null() ? std::nullopt : std::optional(found->get<std::string>());
}

double since(Clock::time_point began) { return std::chrono::duration<double>(Clock::now() - began).count(); }

speed::SendOptions send_options(const Json& command) {
  speed::SendOptions options;
  options.timeout = speed::Seconds(seconds(command, options.timeout.count()));
  options.ack = command.value("ack", false);
  options.topic = command.value("topic", options.topic);
  options.traceparent = optional_text(command, "traceparent");
  return options;
}

speed::CallOptions call_options(const Json& command) {
  speed::CallOptions options;
  options.timeout = speed::Seconds(seconds(command, options.timeout.count()));
  options.traceparent = optional_text(command, "traceparent");
  return options;
}

std::vector<speed::Value> values_of(const Json& payloads) {
  std::vector<speed::Value> values;
  for (const Json& payload : payloads) values.push_back(value_of(payload));
  return values;
}

// The values, or the code of why there are none.
Json payloads_of(const speed::Message& message) try {
  Json payloads = Json::array();
  for (const speed::Value& payload : message.payloads()) payloads.push_back(json_of(payload));
  return payloads;
} catch (const speed::MessageError& error) {
  return error.code();
}

std::int64_t number_of_call(const Json& command) { return command.at("call").get<std::int64_t>(); }

// Byte i is i * 31 modulo 256.
speed::Bytes pattern(std::size_t size) {
  speed::Bytes bytes(size);
  for (std::size_t at = 0; at < size; ++at) bytes[at] = static_cast<std::byte>(at * 31 & 0xff);
  return bytes;
}

}  // namespace

void Seen::add(Json item) {
  const std::lock_guard guard(lock_);
  items_.push_back(std::move(item));
  changed_.notify_all();
}

Json Seen::take() {
  const std::lock_guard guard(lock_);
  Json all = Json::array();
  for (Json& item : items_) all.push_back(std::move(item));
  items_.clear();
  return all;
}

Json Seen::next(double wait_seconds) {
  std::unique_lock guard(lock_);
  changed_.wait_for(guard, std::chrono::duration<double>(wait_seconds), [&] { return !items_.empty(); });
  if (items_.empty()) return nullptr;
  Json item = std::move(items_.front());
  items_.pop_front();
  return item;
}

const std::map<std::string, Commands::Command> Commands::table{
    {"allow", &Commands::allow},
    {"deny", &Commands::deny},
    {"send", &Commands::send},
    {"receive", &Commands::receive},
    {"finish", &Commands::finish},
    {"call", &Commands::call},
    {"stream", &Commands::stream},
    {"progress", &Commands::progress},
    {"start", &Commands::start},
    {"withdraw", &Commands::withdraw},
    {"outcome", &Commands::outcome},
    {"try_call", &Commands::call},
    {"pipeline", &Commands::pipeline},
    {"large", &Commands::large},
    {"publish", &Commands::publish},
    {"publish_batch", &Commands::publish_batch},
    {"subscribe", &Commands::subscribe},
    {"event", &Commands::event},
    {"ping", &Commands::ping},
    {"services", &Commands::services},
    {"info", &Commands::info},
    {"stats", &Commands::stats},
    {"nodes", &Commands::nodes},
    {"wait_for", &Commands::wait_for},
    {"joins", &Commands::joins},
    {"leaves", &Commands::leaves},
    {"burst", &Commands::burst},
    {"drain", &Commands::drain},
    {"race", &Commands::race},
    {"release", &Commands::release},
    {"decode", &Commands::decode},
    {"close", &Commands::close},
    {"segment", &Commands::segment},
    {"protect", &Commands::protect},
    {"unprotect", &Commands::unprotect},
    {"protected_send", &Commands::protected_send},
    {"protected_receive", &Commands::protected_receive},
    {"topic_publish", &Commands::topic_publish},
    {"topic_publish_batch", &Commands::topic_publish_batch},
    {"topic_delete_key", &Commands::topic_delete_key},
    {"topic_consume", &Commands::topic_consume},
    {"topic_receive", &Commands::topic_receive},
    {"topic_acknowledge", &Commands::topic_acknowledge},
    {"topic_reject", &Commands::topic_reject},
    {"topic_leave", &Commands::topic_leave},
    {"topic_read", &Commands::topic_read},
};

Commands::Commands(speed::Node& node, const speed::NodeOptions& options, bool watch) : node_(node), topics_(node) {
  options_.root = options.root;
  options_.key = options.key;
  if (!watch) return;
  node_.on_join([this](const speed::NodeInfo& info) { joins_.add(info.name); });
  node_.on_leave([this](const speed::NodeInfo& info) { leaves_.add(info.name); });
}

Json Commands::run(const Json& command) {
  const auto found = table.find(text(command, "op"));
  if (found == table.end()) throw std::invalid_argument("there is no such op");
  return (this->*found->second)(command);
}

Json Commands::allow(const Json& command) {
  node_.allow(command.at("patterns").get<std::vector<std::string>>());
  return nullptr;
}

Json Commands::deny(const Json& command) {
  node_.deny(command.at("patterns").get<std::vector<std::string>>());
  return nullptr;
}

Json Commands::segment(const Json& command) {
  const Json& size = command.at("size");
  const auto segment_size = size.is_null() ? std::nullopt : std::optional<std::size_t>(size.get<std::size_t>());
  node_.segment(text(command, "target"), segment_size, command.value("parity", 0.0));
  return nullptr;
}

Json Commands::send(const Json& command) {
  return node_.send(text(command, "target"), value_of(command.at("payload")), send_options(command));
}

Json Commands::receive(const Json& command) {
  in_hand_ = node_.receive(speed::Seconds(seconds(command, 5.0)));
  if (!in_hand_) return nullptr;
  return {{"payload", agent::json_of(in_hand_->payload())},
          {"payloads", payloads_of(*in_hand_)},
          {"source", in_hand_->source()},
          {"redelivered", in_hand_->redelivered()},
          {"topic", in_hand_->topic()},
          {"traceparent", text_or_null(in_hand_->traceparent())},
          {"messageId", in_hand_->message_id()}};
}

Json Commands::finish(const Json&) {
  if (in_hand_) in_hand_->done();
  in_hand_.reset();
  return nullptr;
}

Json Commands::call(const Json& command) {
  const speed::Map arguments = map_of(command.value("arguments", Json::object()));
  return agent::json_of(
      node_.call(text(command, "target"), text(command, "service"), arguments, call_options(command)));
}

// All items of a stream and its result, or its first ones; what it sends goes meanwhile.
Json Commands::stream(const Json& command) {
  const auto sent = command.find("items");
  speed::StreamOptions options;
  options.sends = sent != command.end();
  if (command.contains("window_items")) options.window_items = command.at("window_items").get<std::uint64_t>();
  const speed::Map arguments = map_of(command.value("arguments", Json::object()));
  speed::Stream stream = node_.stream(text(command, "target"), text(command, "service"), arguments, options);
  std::jthread sender;
  if (options.sends) {
    sender = std::jthread([&stream, values = values_of(*sent)] {
      if (std::ranges::all_of(values, [&](const speed::Value& value) { return stream.write(value); })) stream.finish();
    });
  }
  Json items = Json::array();
  const auto read = command.find("read");
  if (read != command.end()) {
    while (items.size() < read->get<std::size_t>()) items.push_back(json_of(stream.next().value()));
    return {{"items", items}};
  }
  while (const std::optional<speed::Value> item = stream.next()) items.push_back(json_of(*item));
  return {{"items", items}, {"result", json_of(stream.result())}};
}

Json Commands::progress(const Json& command) {
  Json heard = Json::array();
  speed::CallOptions options;
  options.on_progress = [&](const speed::StreamProgress& progress) {
    heard.push_back({progress.done, progress.total ? Json(*progress.total) : Json(), progress.note});
  };
  const speed::Map arguments{{"count", command.at("count").get<std::int64_t>()}};
  const speed::Value result = node_.call(text(command, "target"), "steps", arguments, options);
  return {{"result", json_of(result)}, {"heard", heard}};
}

Json Commands::start(const Json& command) {
  const speed::Map arguments = map_of(command.value("arguments", Json::object()));
  Started one;
  speed::CallOptions options = call_options(command);
  options.stop = one.withdrawal.get_token();
  one.result = node_.submit(text(command, "target"), text(command, "service"), arguments, options);
  started_[number_of_call(command)] = std::move(one);
  return nullptr;
}

Json Commands::withdraw(const Json& command) {
  const auto found = started_.find(number_of_call(command));
  if (found != started_.end()) found->second.withdrawal.request_stop();
  return nullptr;
}

Json Commands::outcome(const Json& command) {
  const auto found = started_.find(number_of_call(command));
  if (found == started_.end()) throw std::invalid_argument("no such call was begun");
  std::future<speed::Value> result = std::move(found->second.result);
  started_.erase(found);
  return agent::json_of(result.get());
}

Json Commands::pipeline(const Json& command) {
  const auto count = command.at("count").get<std::int64_t>();
  const std::string target = text(command, "target");
  std::vector<std::future<speed::Value>> futures;
  for (std::int64_t n = 0; n < count; ++n) {
    futures.push_back(node_.submit(target, text(command, "service"), {{"n", n}}, call_options(command)));
  }
  bool results_ok = true;
  for (std::int64_t n = 0; n < count; ++n) {
    results_ok = futures[static_cast<std::size_t>(n)].get() == speed::Value(n) && results_ok;
  }
  speed::Array expected;
  for (std::int64_t n = 0; n < count; ++n) expected.emplace_back(n);
  const bool in_order = node_.call(target, "sequence_seen") == speed::Value(expected);
  return {{"in_order", in_order}, {"results_ok", results_ok}};
}

Json Commands::large(const Json& command) {
  const speed::Value data = pattern(command.at("bytes").get<std::size_t>());
  return node_.call(text(command, "target"), "echo", {{"data", data}}, call_options(command)) == data;
}

Json Commands::publish(const Json& command) {
  return node_.publish(text(command, "topic"), value_of(command.at("payload"))).count();
}

// Of pairs: how many got the event of each topic.
Json Commands::publish_batch(const Json& command) {
  if (!command.contains("pairs")) {
    return node_.publish_batch(text(command, "topic"), values_of(command.at("payloads"))).count();
  }
  std::vector<std::pair<std::string, speed::Value>> pairs;
  for (const Json& pair : command["pairs"]) pairs.emplace_back(pair.at(0).get<std::string>(), value_of(pair.at(1)));
  Json counts = Json::object();
  for (const auto& [topic, published] : node_.publish_batch(pairs)) counts[topic] = published.count();
  return counts;
}

Json Commands::subscribe(const Json& command) {
  const auto keep = [this](speed::Message& message) {
    events_.add({{"topic", message.topic()},
                 {"payload", agent::json_of(message.payload())},
                 {"payloads", payloads_of(message)},
                 {"source", message.source()}});
  };
  node_.subscribe(text(command, "pattern"), keep, {.shared = command.value("shared", false)});
  return nullptr;
}

Json Commands::event(const Json& command) { return events_.next(seconds(command, 5.0)); }
Json Commands::ping(const Json& command) {
  return node_.ping(text(command, "target"), speed::Seconds(seconds(command, 5.0))).count();
}

Json Commands::services(const Json& command) {
  return node_.services(text(command, "target"), speed::Seconds(seconds(command, 5.0)));
}

Json Commands::info(const Json& command) {
  return agent::json_of(node_.info(text(command, "target"), speed::Seconds(seconds(command, 5.0))));
}

Json Commands::stats(const Json& command) {
  const auto target = optional_text(command, "target");
  return agent::json_of(target ? node_.stats(*target, speed::Seconds(seconds(command, 5.0))) : node_.stats());
}

Json Commands::nodes(const Json& command) {
  Json names = Json::array();
  for (const speed::NodeInfo& info : node_.nodes(optional_text(command, "fabric"))) names.push_back(info.name);
  return names;
}

Json Commands::wait_for(const Json& command) {
  return node_.wait_for(text(command, "target"), speed::Seconds(seconds(command, 10.0))).name;
}

Json Commands::joins(const Json&) { return joins_.take(); }
Json Commands::leaves(const Json&) { return leaves_.take(); }

Json Commands::burst(const Json& command) {
  const auto count = command.at("count").get<std::int64_t>();
  const std::string target = text(command, "target");
  const std::string filler(command.value("bytes", std::size_t{0}), 'x');
  speed::SendOptions options;
  options.timeout = speed::Seconds(seconds(command, 30.0));
  const auto began = Clock::now();
  for (std::int64_t n = 0; n < count; ++n) {
    speed::Map payload{{"n", n}};
    if (!filler.empty()) payload.set("filler", filler);
    node_.send(target, payload, options);
  }
  return since(began);
}

Json Commands::drain(const Json& command) {
  const auto count = command.at("count").get<std::int64_t>();
  const double limit = seconds(command, 30.0);
  const auto began = Clock::now();
  std::int64_t received = 0;
  std::int64_t redelivered = 0;
  std::int64_t last = -1;
  bool in_order = true;
  while (received < count) {
    in_hand_ = node_.receive(speed::Seconds(limit - since(began)));
    if (!in_hand_) break;
    const std::int64_t number = in_hand_->payload().as<speed::Map>().find("n")->as<std::int64_t>();
    in_order = in_order && number > last;
    last = number;
    ++received;
    redelivered += in_hand_->redelivered() ? 1 : 0;
  }
  finish(command);
  return {{"received", received}, {"in_order", in_order}, {"redelivered", redelivered}};
}

// steady_clock is CLOCK_MONOTONIC, as in the other agents.
Json Commands::race(const Json& command) {
  std::this_thread::sleep_until(Clock::time_point(std::chrono::nanoseconds(command.at("at").get<std::int64_t>())));
  prize_ = std::make_unique<speed::Node>(text(command, "name"), options_);
  return prize_->generation();
}

Json Commands::release(const Json&) {
  prize_.reset();
  return nullptr;
}

Json Commands::protect(const Json& command) {
  protected_.reset();
  protected_ = std::make_unique<ProtectedNode>(command, options_);
  return protected_->generation();
}

Json Commands::unprotect(const Json&) {
  protected_.reset();
  return nullptr;
}

Json Commands::protected_send(const Json& command) { return protected_->send(command); }
Json Commands::protected_receive(const Json& command) { return protected_->receive(command); }

Json Commands::topic_publish(const Json& command) { return topics_.publish(command); }
Json Commands::topic_publish_batch(const Json& command) { return topics_.publish_batch(command); }
Json Commands::topic_delete_key(const Json& command) { return topics_.delete_key(command); }
Json Commands::topic_consume(const Json& command) { return topics_.consume(command); }
Json Commands::topic_receive(const Json& command) { return topics_.receive(command); }
Json Commands::topic_acknowledge(const Json& command) { return topics_.acknowledge(command); }
Json Commands::topic_reject(const Json& command) { return topics_.reject(command); }
Json Commands::topic_leave(const Json&) { return topics_.leave(); }
Json Commands::topic_read(const Json& command) { return topics_.read(command); }

Json Commands::decode(const Json& command) {
  return verdict(text(command, "kind"), value_of(command.at("bytes")).as<speed::Bytes>());
}

Json Commands::close(const Json&) {
  prize_.reset();
  protected_.reset();
  in_hand_.reset();
  topics_.leave();
  node_.close();
  over_ = true;
  return nullptr;
}

}  // namespace agent
