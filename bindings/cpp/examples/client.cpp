// Calls services of other languages: a Python node `geo` and a Java node `rules`, each if it is there.
//
//   speed-example-client [NAME] [--root DIR] [--key FILE]
#include <iostream>

#include <speed/speed.hpp>

namespace {

void ask_python(speed::Node& node) {
  const speed::Map places{{"lat1", 40.64}, {"lon1", -73.78}, {"lat2", 33.94}, {"lon2", -118.41}};
  const double miles = node.call("geo", "distance", places).as<double>();
  std::cout << "geo (python): JFK to LAX is " << miles << " miles\n";
}

// Whatever the Java node offers to this one: asking it needs no knowledge of its services.
void ask_java(speed::Node& node) {
  const std::string language = node.info("rules").find("language")->as<std::string>();
  std::cout << "rules (" << language << ") offers:";
  for (const std::string& service : node.services("rules")) std::cout << ' ' << service;
  std::cout << '\n';
}

void attempt(void (*ask)(speed::Node&), speed::Node& node) {
  try {
    ask(node);
  } catch (const speed::Error& error) {
    std::cerr << error.code() << ": " << error.what() << '\n';
  }
}

}  // namespace

int main(int count, char** words) {
  std::string name = "client";
  speed::NodeOptions options;
  for (int at = 1; at < count; ++at) {
    const std::string word = words[at];
    if (word == "--root" && at + 1 < count) options.root = words[++at];
    else if (word == "--key" && at + 1 < count) options.key = words[++at];
    else name = word;
  }
  try {
    speed::Node node(name, options);
    attempt(ask_python, node);
    attempt(ask_java, node);
  } catch (const speed::Error& error) {
    std::cerr << error.code() << ": " << error.what() << '\n';
    return 3;
  }
  return 0;
}
