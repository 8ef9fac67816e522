// Two nodes in a root of their own, which the argument names.
#include <iostream>

#include <speed/speed.hpp>

int main(int count, char** words) {
  if (count != 2) return 2;
  try {
    const std::string root = speed::init_root(words[1]);  // makes it and its key, where they are missing
    speed::Node adder("adder", {.root = root, .allow = {"asker"}});
    adder.serve("addOne", [](const speed::Request& request) -> speed::Response { return request.get<int>("x") + 1; });
    speed::Node asker("asker", {.root = root});
    std::cout << asker.call("adder", "addOne", {{"x", 41}}).as<int>() << '\n';
  } catch (const speed::Error& error) {
    std::cerr << error.code() << ": " << error.what() << '\n';
    return 3;
  }
  return 0;
}
