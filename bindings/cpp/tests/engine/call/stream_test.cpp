// Streams and progress between programs (S-27 to S-34).
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "fabric.hpp"

namespace speed {
namespace {

using test::eventually;
using test::TestRoot;

class StreamTest : public testing::Test {
 protected:
  void SetUp() override {
    billing_.serve_stream("numbers", [](const Request& request, ServedStream& out) -> Response {
      for (int number = 0; number < request.get<int>("count"); ++number) out.write(number);
      return "over";
    });
    billing_.serve_stream(
        "total",
        [](const Request&, ServedStream& in) -> Response {
          std::int64_t sum = 0;
          while (const std::optional<Value> item = in.read()) sum += item->as<std::int64_t>();
          return sum;
        },
        ItemsOf::caller);
    billing_.serve_stream(
        "double",
        [](const Request&, ServedStream& stream) -> Response {
          while (const std::optional<Value> item = stream.read()) stream.write(2 * item->as<std::int64_t>());
          return {};
        },
        ItemsOf::both);
    billing_.serve_stream("endless", [this](const Request&, ServedStream& out) -> Response {
      try {
        for (int number = 0;; ++number) {
          out.write(number);
          ++written_;
        }
      } catch (const CallWithdrawnError&) {
        is_ended_ = true;
        throw;
      }
    });
  }

  static std::vector<int> read_all(Stream& stream) {
    std::vector<int> items;
    while (const std::optional<Value> item = stream.next()) items.push_back(item->as<int>());
    return items;
  }
  static std::vector<int> counted(int count, int step = 1) {
    std::vector<int> numbers(static_cast<std::size_t>(count));
    for (int number = 0; number < count; ++number) numbers[static_cast<std::size_t>(number)] = number * step;
    return numbers;
  }
  StreamOptions sending() {
    StreamOptions options;
    options.sends = true;
    return options;
  }

  std::atomic<int> written_ = 0;
  std::atomic<bool> is_ended_ = false;
  TestRoot root_;
  Node billing_{"billing", root_.options({"shop"})};
  Node shop_{"shop", root_.options()};
};

TEST_F(StreamTest, items_come_in_order_and_then_the_result) {
  for (const int count : {0, 1, 20'000}) {
    Stream stream = shop_.stream("billing", "numbers", {{"count", count}});
    EXPECT_EQ(read_all(stream), counted(count));
    EXPECT_EQ(stream.next(), std::nullopt);  // and so each time
    EXPECT_EQ(stream.result().as<std::string>(), "over");
  }
}

TEST_F(StreamTest, a_small_window_in_items_or_bytes_is_enough) {
  for (const std::uint64_t window : {std::uint64_t{1}, std::uint64_t{3}}) {
    StreamOptions by_items, by_bytes;
    by_items.window_items = by_bytes.window_bytes = window;
    for (const StreamOptions& options : {by_items, by_bytes}) {
      Stream stream = shop_.stream("billing", "numbers", {{"count", 50}}, options);
      EXPECT_EQ(read_all(stream), counted(50));
    }
  }
  StreamOptions none;
  none.window_items = 0;
  EXPECT_THROW(shop_.stream("billing", "numbers", {{"count", 1}}, none), ConfigurationError);
}

TEST_F(StreamTest, an_item_is_there_before_the_next_one_is_made) {
  std::promise<void> gate;
  billing_.serve_stream("slow", [opened = gate.get_future().share()](const Request&, ServedStream& out) -> Response {
    out.write(1);
    opened.wait();
    out.write(2);
    return {};
  });
  Stream stream = shop_.stream("billing", "slow");
  EXPECT_EQ(stream.next()->as<int>(), 1);
  gate.set_value();
  EXPECT_EQ(stream.next()->as<int>(), 2);
  EXPECT_EQ(stream.next(), std::nullopt);
}

TEST_F(StreamTest, a_service_waits_for_who_does_not_read) {
  StreamOptions small;
  small.window_items = 10;
  Stream stream = shop_.stream("billing", "endless", {}, small);
  ASSERT_TRUE(eventually([&] { return written_ == 10; }));
  usleep(100'000);
  EXPECT_EQ(written_, 10);
  EXPECT_EQ(stream.next()->as<int>(), 0);
}

TEST_F(StreamTest, a_service_takes_items_of_its_caller) {
  for (const int count : {0, 1, 10'000}) {
    Stream stream = shop_.stream("billing", "total", {}, sending());
    for (int number = 0; number < count; ++number) ASSERT_TRUE(stream.write(number));
    EXPECT_TRUE(stream.finish());
    EXPECT_EQ(stream.result().as<int>(), count * (count - 1) / 2);
    EXPECT_THROW(stream.write(1), ConfigurationError);
  }
}

TEST_F(StreamTest, items_go_both_ways_at_once) {
  Stream stream = shop_.stream("billing", "double", {}, sending());
  std::jthread sender([&] {
    for (int number = 0; number < 20'000; ++number) stream.write(number);
    stream.finish();
  });
  EXPECT_EQ(read_all(stream), counted(20'000, 2));
}

TEST_F(StreamTest, who_stops_reading_ends_the_service) {
  {
    Stream stream = shop_.stream("billing", "endless");
    EXPECT_EQ(stream.next()->as<int>(), 0);
  }
  EXPECT_TRUE(eventually([&] { return is_ended_.load(); }));
}

TEST_F(StreamTest, a_closed_stream_says_so_to_who_reads_it) {
  Stream stream = shop_.stream("billing", "endless");
  ASSERT_TRUE(stream.next());  // by now the service runs: one that was not begun has no end
  std::jthread closer([&] { stream.close(); });
  EXPECT_THROW(while (stream.next()){}, CallWithdrawnError);
  EXPECT_THROW(stream.next(), CallWithdrawnError);
  EXPECT_TRUE(eventually([&] { return is_ended_.load(); }));
}

TEST_F(StreamTest, an_error_comes_after_the_items_before_it_and_again_each_time) {
  billing_.serve_stream("breaks", [](const Request&, ServedStream& out) -> Response {
    for (int number = 0; number < 100; ++number) out.write(number);
    throw ApplicationError("SOLD_OUT", "none left");
  });
  Stream stream = shop_.stream("billing", "breaks");
  for (int number = 0; number < 100; ++number) ASSERT_EQ(stream.next()->as<int>(), number);
  for (int time = 0; time < 2; ++time) {
    try {
      stream.next();
      FAIL();
    } catch (const ApplicationError& error) {
      EXPECT_EQ(error.code(), "SOLD_OUT");
      EXPECT_EQ(error.node(), "billing");
      EXPECT_EQ(error.execution(), Execution::ran);
    }
  }
  EXPECT_THROW(stream.result(), ApplicationError);
}

TEST_F(StreamTest, a_writer_hears_that_the_service_takes_no_more_and_the_reader_why) {
  billing_.serve_stream(
      "refuses",
      [](const Request&, ServedStream& in) -> Response {
        in.read();
        throw ApplicationError("SOLD_OUT", "none left");
      },
      ItemsOf::caller);
  Stream stream = shop_.stream("billing", "refuses", {}, sending());
  while (stream.write(1)) {
  }
  EXPECT_FALSE(stream.finish());
  EXPECT_THROW(stream.result(), ApplicationError);
}

TEST_F(StreamTest, deadlines_hold_on_both_sides) {
  StreamOptions brief;
  brief.timeout = 200ms;
  Stream stream = shop_.stream("billing", "endless", {}, brief);
  EXPECT_THROW(while (stream.next()) { usleep(1000); }, CallTimeoutError);
  EXPECT_TRUE(eventually([&] { return is_ended_.load(); }));
}

TEST_F(StreamTest, what_stays_away_too_long_ends_the_stream) {
  std::atomic<bool> is_told = false;
  billing_.serve_stream("silent", [&](const Request& request, ServedStream&) -> Response {
    is_told = eventually([&] { return request.cancelled(); });
    return {};
  });
  StreamOptions impatient;
  impatient.idle_timeout = 100ms;
  Stream stream = shop_.stream("billing", "silent", {}, impatient);
  EXPECT_THROW(stream.next(), CallTimeoutError);
  EXPECT_THROW(stream.next(), CallTimeoutError);
  EXPECT_TRUE(eventually([&] { return is_told.load(); }));
}

TEST_F(StreamTest, the_end_of_its_server_ends_a_stream) {
  auto leaving = std::make_unique<Node>("leaving", root_.options({"shop"}));
  leaving->serve_stream("endless", [](const Request&, ServedStream& out) -> Response {
    while (true) out.write(1);
  });
  Stream stream = shop_.stream("leaving", "endless");
  EXPECT_TRUE(stream.next());
  std::jthread closer([&] { leaving->close(0s); });
  EXPECT_THROW(while (stream.next()){}, Error);
}

TEST_F(StreamTest, a_stream_outlives_its_node_and_does_nothing) {
  auto brief = std::make_unique<Node>("shop2", root_.options());
  billing_.allow("shop2");
  Stream stream = brief->stream("billing", "endless");
  EXPECT_TRUE(stream.next());
  brief.reset();
  EXPECT_THROW(while (stream.next()){}, Error);
}

TEST_F(StreamTest, what_a_service_gives_and_takes_is_what_it_is_called_for) {
  billing_.serve("plain", [](const Request&) { return 1; });
  EXPECT_THROW(shop_.call("billing", "numbers", {{"count", 1}}), InvalidArgumentsError);
  EXPECT_THROW(shop_.stream("billing", "plain").next(), InvalidArgumentsError);
  EXPECT_THROW(shop_.stream("billing", "total").next(), InvalidArgumentsError);
  EXPECT_THROW(shop_.stream("billing", "numbers", {{"count", 1}}, sending()).next(), InvalidArgumentsError);
  EXPECT_THROW(shop_.stream("billing", "numbers", {{"count", 1}}).write(1), ConfigurationError);
  EXPECT_THROW(shop_.stream("billing@elsewhere", "numbers"), ConfigurationError);
  EXPECT_THROW(billing_.serve_stream("null", StreamFunction()), ConfigurationError);
  EXPECT_EQ(*shop_.describe("billing").front().find("name"), Value("double"));
  EXPECT_EQ(*shop_.describe("billing").front().find("streaming"), Value(true));
}

TEST_F(StreamTest, an_item_that_cannot_travel_fails_where_it_is_given) {
  Stream stream = shop_.stream("billing", "total", {}, sending());
  EXPECT_THROW(stream.write(std::string("\xff")), UnserialisableError);
  EXPECT_TRUE(stream.write(1));
  EXPECT_TRUE(stream.finish());
  EXPECT_EQ(stream.result().as<int>(), 1);
}

TEST_F(StreamTest, progress_is_heard_and_its_end_never_lost) {
  billing_.serve("steps", [](const Request& request) -> Response {
    for (int step = 0; step <= 1000; ++step) request.progress(step, 1000, "counting");
    EXPECT_THROW(request.progress(-1), ConfigurationError);
    return "done";
  });
  std::vector<StreamProgress> heard;
  CallOptions options;
  options.on_progress = [&](const StreamProgress& progress) { heard.push_back(progress); };
  EXPECT_EQ(shop_.call("billing", "steps", {}, options).as<std::string>(), "done");
  ASSERT_FALSE(heard.empty());
  EXPECT_EQ(heard.back().done, 1000);
  EXPECT_EQ(heard.back().total, 1000);
  EXPECT_EQ(heard.back().note, "counting");
  EXPECT_EQ(shop_.call("billing", "steps").as<std::string>(), "done");  // nobody wants to know
  EXPECT_THROW(shop_.submit("billing", "steps", {}, options), ConfigurationError);
  options.retry = Retry{};
  EXPECT_THROW(shop_.call("billing", "steps", {}, options), ConfigurationError);
}

TEST_F(StreamTest, a_call_with_progress_is_withdrawn_like_any_other) {
  billing_.serve("waits", [](const Request& request) -> Response {
    request.progress(1);
    eventually([&] { return request.cancelled(); });
    request.throw_if_cancelled();
    return {};
  });
  std::stop_source stop;
  CallOptions options;
  options.stop = stop.get_token();
  options.on_progress = [&](const StreamProgress&) { stop.request_stop(); };
  EXPECT_THROW(shop_.call("billing", "waits", {}, options), CallWithdrawnError);
}

TEST_F(StreamTest, one_member_of_a_family_gives_all_of_a_stream) {
  const Node lacks("rows.0", root_.options({"shop"}));
  Node gives("rows.1", root_.options({"shop"}));
  gives.serve_stream("numbers", [](const Request& request, ServedStream& out) -> Response {
    for (int number = 0; number < request.get<int>("count"); ++number) out.write(number);
    request.progress(1, 1);
    return "rows.1";
  });
  gives.serve_stream(
      "total",
      [](const Request&, ServedStream& in) -> Response {
        std::int64_t sum = 0;
        while (const std::optional<Value> item = in.read()) sum += item->as<std::int64_t>();
        return sum;
      },
      ItemsOf::caller);
  for (int time = 0; time < 4; ++time) {  // some ask the one that lacks it first
    Stream stream = shop_.stream("rows.*", "numbers", {{"count", 100}});
    EXPECT_EQ(read_all(stream), counted(100));
    EXPECT_EQ(stream.result().as<std::string>(), "rows.1");
    Stream sent = shop_.stream("rows.*", "total", {}, sending());
    for (int number = 0; number < 10; ++number) EXPECT_TRUE(sent.write(number));
    EXPECT_TRUE(sent.finish());
    EXPECT_EQ(sent.result().as<int>(), 45);
  }
  EXPECT_THROW(shop_.stream("rows.*", "missing").next(), ServiceNotFoundError);
  EXPECT_THROW(shop_.stream("nobody.*", "missing"), UnknownNodeError);
}

}  // namespace
}  // namespace speed
