// Publishes to the durable topic `orders` and consumes it, as docs/howto/topics.md shows; with a speedd that hosts it.
#include <iostream>

#include <speed/speed.hpp>

using namespace std::chrono_literals;

namespace {

void publish() {
  speed::Node shop("shop.cpp");
  const speed::Topic orders = shop.topic("orders");
  orders.publish({{"id", 1}, {"amount", 20.5}}, {.key = "customer 7", .properties = {{"source", "web"}}});
}

void consume() {
  speed::Node billing("billing.cpp");
  speed::Consumer consumer = billing.topic("orders").consumer(
      "billing", {.type = speed::SubscriptionType::shared, .start = speed::Start::earliest()});
  while (const auto message = consumer.receive(500ms)) {
    std::cout << message->payload["id"].as<int>() << ' ' << message->key.value_or("") << '\n';
    consumer.acknowledge(*message);
  }
}

}  // namespace

int main() {
  try {
    publish();
    consume();
  } catch (const speed::Error& error) {
    std::cerr << error.code() << ": " << error.what() << '\n';
    return 3;
  }
  return 0;
}
