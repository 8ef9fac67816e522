// Errors of services as classes of the program's own.
#include <gtest/gtest.h>

#include "fabric.hpp"

namespace speed {
namespace {

using test::TestRoot;

struct InsufficientFunds : ApplicationError {
  static constexpr char error_code[] = "INSUFFICIENT_FUNDS";
  explicit InsufficientFunds(double left)
      : ApplicationError(error_code, "there is not enough money", {{"balance", left}}), balance(left) {}
  explicit InsufficientFunds(const ApplicationError& received)
      : ApplicationError(received), balance(field<double>(received, "balance")) {}
  double balance;
};

class DeclaredErrorTest : public testing::Test {
 protected:
  void SetUp() override { declare_error<InsufficientFunds>(); }

  TestRoot root_;
  Node bank_{"bank", root_.options({"shop"})};
  Node shop_{"shop", root_.options()};
};

TEST_F(DeclaredErrorTest, a_caller_catches_the_class_with_its_fields) {
  bank_.serve("pay", [](const Request&) -> Response { throw InsufficientFunds(12.5); });
  try {
    shop_.call("bank", "pay");
    FAIL();
  } catch (const InsufficientFunds& error) {
    EXPECT_EQ(error.balance, 12.5);
    EXPECT_EQ(error.code(), "INSUFFICIENT_FUNDS");
    EXPECT_EQ(error.execution(), Execution::ran);
    EXPECT_EQ(error.node(), "bank");
  }
  EXPECT_THROW(shop_.submit("bank", "pay").get(), InsufficientFunds);
}

TEST_F(DeclaredErrorTest, one_with_other_fields_or_that_is_not_declared_stays_what_it_is) {
  bank_.serve("pay", [](const Request& request) -> Response {
    throw ApplicationError(request.get<std::string>("code"), "none", {{"other", 1}});
  });
  for (const char* code : {"INSUFFICIENT_FUNDS", "SOLD_OUT"}) {
    try {
      shop_.call("bank", "pay", {{"code", code}});
      FAIL();
    } catch (const InsufficientFunds&) {
      FAIL() << code;
    } catch (const ApplicationError& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_EQ(field<int>(error, "other"), 1);
      EXPECT_THROW(field<int>(error, "missing"), ConversionError);
    }
  }
}

}  // namespace
}  // namespace speed
