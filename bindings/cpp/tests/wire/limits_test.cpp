// Codes are those of registry_spec/codes.json (W-0); tests/unit/test_generated.py compares what is generated of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "speed/error.hpp"
#include "vectors.hpp"
#include "wire/limits.hpp"

namespace speed {
namespace {

using test::Json;

template <class... Errors>
std::set<std::string> codes_of() {
  return {std::string(Errors("x").code())...};
}

std::set<std::string> listed(const char* list) {
  const Json codes = test::spec_file("codes.json");
  return codes[list].get<std::set<std::string>>();
}

TEST(Codes, every_spc_code_has_one_exception_class_s_8) {
  EXPECT_EQ(
      (codes_of<ServiceNotFoundError, AccessDeniedError, InvalidArgumentsError, ExecutionFailedError, CallTimeoutError,
                InternalError, SegmentsLostError, CallWithdrawnError, NodeLeavingError, NodeReplacedError>()),
      listed("spc"));
}

TEST(Codes, every_refusal_of_an_envelope_is_a_wire_code_w_5) {
  const std::set<std::string> wire_codes = listed("wire");
  for (int refusal = 1; refusal <= static_cast<int>(wire::Refusal::bad_tag); ++refusal) {
    EXPECT_TRUE(wire_codes.contains(std::string(code_of(static_cast<wire::Refusal>(refusal))))) << refusal;
  }
}

}  // namespace
}  // namespace speed
