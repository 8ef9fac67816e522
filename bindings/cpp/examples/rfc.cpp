// The examples of the RFC as one program: a tax service that is registered, called and written to. Root and key come from
// $SPEED_ROOT and $SPEED_KEY. The same in Python and Java: examples/rfc.py, speed/examples/Rfc.java.
#include <iostream>

#include <speed/speed.hpp>

namespace {

class TaxService : public speed::SpeedService {
 public:
  speed::SpeedResponse invoke(const speed::SpeedRequest& request) override {
    int amount = request.get<int>("amount");
    return {{"tax", amount * 0.18}};
  }
};

void run() {
  TaxService tax;
  speed::Node billing("billing");
  speed::Node analytics("analytics");
  billing.serve("calculateTax", &tax, {"analytics"});
  billing.on_message([](const speed::Message& message) {
    std::cout << message.source() << ' ' << message.payload().as<std::string>() << '\n';
  });
  billing.allow("analytics");

  const auto answer = analytics.call("billing", "calculateTax", {{"amount", 1000}});
  std::cout << "tax " << answer["tax"].as<double>() << '\n';
  analytics.send("billing", "hello", {.ack = true});
  try {
    analytics.call("billing", "generateInvoice");
  } catch (const speed::ServiceNotFoundError& error) {
    std::cout << error.code() << '\n';
  }
}

}  // namespace

int main() {
  try {
    run();
  } catch (const speed::Error& error) {
    std::cerr << error.code() << ": " << error.what() << '\n';
    return 3;
  }
  return 0;
}
