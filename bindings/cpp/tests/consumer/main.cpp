// Two nodes in a root of their own; the argument is that root, with its key in speed.key.
#include <iostream>

#include <speed/speed.hpp>

int main(int count, char** words) {
  if (count != 2) return 2;
  speed::NodeOptions options;
  options.root = words[1];
  options.key = options.root + "/speed.key";
  options.allow = {"asker"};
  try {
    speed::Node adder("adder", options);
    adder.serve("addOne", [](const speed::Request& request) -> speed::Response {
      return speed::Value(request.get<std::int64_t>("x") + 1);
    });
    speed::Node asker("asker", options);
    std::cout << asker.call("adder", "addOne", {{"x", 41}}).as<std::int64_t>() << '\n';
  } catch (const speed::Error& error) {
    std::cerr << error.code() << ": " << error.what() << '\n';
    return 3;
  }
  return 0;
}
