// Streams, progress, families, errors of a service's own, interceptors and logs, as docs/howto shows them, in one process.
#include <chrono>
#include <iostream>
#include <thread>

#include <speed/speed.hpp>

using namespace std::chrono_literals;

namespace {

struct InsufficientFunds : speed::ApplicationError {
  static constexpr char error_code[] = "INSUFFICIENT_FUNDS";
  explicit InsufficientFunds(double left)
      : ApplicationError(error_code, "there is not enough money", {{"balance", left}}), balance(left) {}
  explicit InsufficientFunds(const speed::ApplicationError& received)
      : ApplicationError(received), balance(speed::field<double>(received, "balance")) {}
  double balance;
};

void streams(speed::Node& billing, speed::Node& analytics) {
  billing.serve_stream("rows", [](const speed::Request& request, speed::ServedStream& out) -> speed::Response {
    const int count = request.get<int>("count");
    for (int row = 0; row < count; ++row) out.write(speed::Map{{"number", row}});
    return count;
  });

  speed::Stream rows = analytics.stream("billing", "rows", {{"count", 3}});
  while (const auto row = rows.next()) std::cout << (*row)["number"].as<int>() << ' ';
  std::cout << "of " << rows.result().as<int>() << '\n';
}

void streams_of_the_caller(speed::Node& billing, speed::Node& analytics) {
  const auto total = [](const speed::Request&, speed::ServedStream& in) -> speed::Response {
    double sum = 0;
    while (const auto amount = in.read()) sum += amount->as<double>();
    return sum;
  };
  billing.serve_stream("total", total, speed::ItemsOf::caller);

  speed::Stream amounts = analytics.stream("billing", "total", {}, {.sends = true});
  for (const double amount : {1.5, 2.5}) {
    if (!amounts.write(amount)) break;  // the service takes no more: result says why
  }
  amounts.finish();
  std::cout << amounts.result().as<double>() << '\n';
}

void progress(speed::Node& billing, speed::Node& analytics) {
  billing.serve("work", [](const speed::Request& request) -> speed::Response {
    for (int step = 1; step <= 5; ++step) {
      std::this_thread::sleep_for(10ms);
      request.progress(step, 5, "counting");
    }
    return "done";
  });

  speed::CallOptions options;
  options.on_progress = [](const speed::StreamProgress& now) { std::cout << now.done << " of " << *now.total << '\n'; };
  analytics.call("billing", "work", {}, options);
}

void families(speed::Node& shop) {
  speed::Node one("pricing.1", {.allow = {"shop"}});
  speed::Node two("pricing.2", {.allow = {"shop"}});
  for (speed::Node* node : {&one, &two}) {
    node->serve("quote", [node](const speed::Request&) { return node->name(); }, {.idempotent = true});
  }

  const speed::Value name = shop.call("pricing.*", "quote");
  const speed::Value same = shop.call("pricing.*", "quote", {}, {.key = "alice"});
  const speed::Value sure =
      shop.call("pricing.*", "quote", {}, {.retry = speed::Retry{.attempts = 5, .idempotent = true}});
  std::cout << name.as<std::string>().starts_with("pricing.") << same.is_nil() << sure.is_nil() << '\n';
}

void declared_errors(speed::Node& bank, speed::Node& shop) {
  speed::declare_error<InsufficientFunds>();  // once, before the first call
  bank.serve("pay", [](const speed::Request&) -> speed::Response { throw InsufficientFunds(12.5); });
  try {
    shop.call("bank", "pay");
  } catch (const InsufficientFunds& error) {
    std::cout << error.balance << '\n';
  }
}

void interceptors(speed::Node& bank, speed::Node& shop) {
  bank.intercept_services([](const speed::Request& request, const speed::ServiceFunction& proceed) -> speed::Response {
    if (request.arguments.find("session") == nullptr) throw speed::ApplicationError("SIGNED_OUT", "sign in first");
    return proceed(request);
  });
  shop.intercept_calls([](speed::CallRequest& request) -> speed::AfterCall {
    request.arguments.set("session", "s-1");
    return [began = std::chrono::steady_clock::now()](speed::CallOutcome& outcome) {
      const bool is_quick = std::chrono::steady_clock::now() - began < 1min;
      if (outcome.error == nullptr) std::cout << "it took less than a minute: " << is_quick << '\n';
    };
  });
  bank.serve("double", [](const speed::Request& request) { return 2 * request.get<int>("x"); });
  std::cout << shop.call("bank", "double", {{"x", 2}}).as<int>() << '\n';
}

// A log of one's own.
void logs() {
  speed::set_log(
      [](speed::LogLevel level, std::string_view logger, std::string_view text) {
        std::clog << speed::name_of(level) << ' ' << logger << ": " << text << '\n';
      },
      speed::LogLevel::warning);
}

}  // namespace

int main() {
  try {
    logs();
    speed::init_root();
    speed::Node billing("billing", {.allow = {"analytics"}});
    speed::Node analytics("analytics");
    streams(billing, analytics);
    streams_of_the_caller(billing, analytics);
    progress(billing, analytics);
    speed::Node bank("bank", {.allow = {"shop"}});
    speed::Node shop("shop");
    families(shop);
    interceptors(bank, shop);
    declared_errors(bank, shop);
  } catch (const speed::Error& error) {
    std::cerr << error.code() << ": " << error.what() << '\n';
    return 3;
  }
  return 0;
}
