// Calls the services of examples/flights, whatever language they are written in: `geo`, `rules` and `model`. Its node is
// called `etl.cpp`; root and key come from $SPEED_ROOT and $SPEED_KEY, or from the command line:
//
//   speed-example-client [--root DIR] [--key FILE]
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <future>
#include <iostream>
#include <vector>

#include <speed/speed.hpp>

namespace {

struct Place {
  double latitude;
  double longitude;
};
constexpr std::array airports{Place{40.6413, -73.7781}, Place{33.9416, -118.4085}, Place{51.47, -0.4543}};

speed::Map route(const Place& from, const Place& to) {
  return {{"lat1", from.latitude}, {"lon1", from.longitude}, {"lat2", to.latitude}, {"lon2", to.longitude}};
}

double one_distance(speed::Node& node) {
  const auto miles = node.call("geo", "distance", route(airports[0], airports[1])).as<double>();
  std::printf("JFK to LAX: %.1f miles\n", miles);
  return miles;
}

void compensation(speed::Node& node, double miles) {
  const auto due =
      node.call("rules", "compensation", {{"delay_minutes", 240}, {"distance_miles", miles}, {"cancelled", false}})
          .as<speed::Map>();
  std::printf("four hours late: %s, %lld euros\n", due.find("category")->as<std::string>().c_str(),
              static_cast<long long>(due.find("amount")->as<std::int64_t>()));
}

// Many calls under way at a time.
void all_distances(speed::Node& node) {
  std::vector<std::future<speed::Value>> answers;
  for (const Place& from : airports) {
    for (const Place& to : airports) answers.push_back(node.submit("geo", "distance", route(from, to)));
  }
  double total = 0;
  for (std::future<speed::Value>& answer : answers) total += answer.get().as<double>();
  std::printf("all pairs: %.1f miles\n", total);
}

// Fits y = 2x + 1 and predicts; the model is a plain map that travels back and forth, a prediction 8 bytes of a float64.
void model(speed::Node& node) {
  using speed::Array;
  using speed::Map;
  const auto fitted =
      node.call("model", "fit",
                {{"columns", Map{{"x", Array{1, 2, 3, 4}}}}, {"target", Array{3, 5, 7, 9}}, {"categories", Array{}}})
          .as<Map>();
  const auto predicted =
      node.call("model", "predict", {{"model", *fitted.find("model")}, {"columns", Map{{"x", Array{10}}}}})
          .as<speed::Bytes>();
  static_assert(std::endian::native == std::endian::little, "as the prediction is");
  double value = 0;
  std::memcpy(&value, predicted.data(), std::min(sizeof value, predicted.size()));
  std::printf("model: rmse %.6f, f(10) = %.3f\n", fitted.find("rmse")->as<double>(), value);
}

}  // namespace

int main(int count, char** words) {
  speed::NodeOptions options;
  for (int at = 1; at < count; at += 2) {
    const std::string option = words[at];
    if (at + 1 == count || (option != "--root" && option != "--key")) {
      std::cerr << "usage: speed-example-client [--root DIR] [--key FILE]\n";
      return 2;
    }
    (option == "--root" ? options.root : options.key) = words[at + 1];
  }
  try {
    speed::Node node("etl.cpp", options);
    const double miles = one_distance(node);
    compensation(node, miles);
    all_distances(node);
    model(node);
  } catch (const speed::Error& error) {
    std::cerr << error.code() << ": " << error.what() << '\n';
    return 3;
  }
  return 0;
}
