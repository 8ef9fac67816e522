// Names of other hosts, by the contract's vectors.
#include "wire/names/names.hpp"

#include <gtest/gtest.h>

#include "speed/error.hpp"
#include "vectors.hpp"

namespace speed::wire {
namespace {

using test::Json;

TEST(Hosts, have_names_of_letters_digits_hyphens_and_underscores_h_1) {
  for (const Json& item : test::cases("hosts", "names")) {
    EXPECT_EQ(is_host_name(item.at("name").get<std::string>()), item.at("valid").get<bool>()) << test::what(item);
  }
}

TEST(Hosts, are_granted_by_patterns_that_name_one_h_1) {
  for (const Json& item : test::cases("hosts", "patterns")) {
    const std::string pattern = item.at("pattern");
    if (!is_remote(pattern)) continue;  // a grant of this root, judged as such
    if (item.at("valid").get<bool>()) {
      EXPECT_NO_THROW(local_grant(pattern)) << test::what(item);
    } else {
      EXPECT_THROW(local_grant(pattern), InvalidNameError) << test::what(item);
    }
  }
}

TEST(Hosts, are_known_to_nodes_of_this_root_by_their_stand_ins_h_9) {
  for (const Json& item : test::cases("hosts", "grants")) {
    EXPECT_EQ(local_grant(item.at("grant")), item.at("local").get<std::string>()) << test::what(item);
  }
}

TEST(Hosts, a_node_of_one_has_both_names_h_1) {
  EXPECT_NO_THROW(check_remote("billing@hostb"));
  for (const char* name : {"billing", "billing@", "@hostb", "a@b@c", "billing@host b", "*@hostb"}) {
    EXPECT_THROW(check_remote(name), InvalidNameError) << name;
  }
}

}  // namespace
}  // namespace speed::wire
