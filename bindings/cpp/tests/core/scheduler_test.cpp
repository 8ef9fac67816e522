// The published steps of registry_spec/scheduling.md, one Scheduler for each case.
#include <gtest/gtest.h>

#include "core/scheduler.hpp"
#include "vectors.hpp"

namespace speed::core {
namespace {

using test::cases;
using test::Json;

struct Named : Work {
  Named(Kind of, std::string name) : Work(of), id(std::move(name)) {}
  const std::string id;
};

const std::string& name_of(const Work& work) { return dynamic_cast<const Named&>(work).id; }

Json name_of(const WorkPtr& work) { return work == nullptr ? Json(nullptr) : Json(name_of(*work)); }

Json names_of(const std::vector<WorkPtr>& works) {
  Json names = Json::array();
  for (const WorkPtr& work : works) names.push_back(name_of(*work));
  return names;
}

const char* text_of(State state) {
  constexpr const char* texts[] = {"unclaimed", "waiting", "running", "blocked", "in hand", "back-off", "ended"};
  return texts[static_cast<std::size_t>(state)];
}

class Replay {
 public:
  explicit Replay(std::size_t workers) : scheduler_(workers) {}

  Json step(const Json& step) {
    const auto what = step.at("do").get<std::string>();
    if (what == "request") return request(step);
    if (what == "message") return message(step);
    if (what == "take") return name_of(scheduler_.take(test::instant(step.at("now"))));
    if (what == "blocked") return scheduler_.blocked(work(step));
    if (what == "claim") return claim(step);
    if (what == "receive") return name_of(scheduler_.receive());
    if (what == "withdraw") return withdraw(step);
    if (what == "forget") return forget(step);
    if (what == "expire") return expire(step);
    if (what == "next_time") return next_time();
    if (what == "close") return names_of(scheduler_.close());
    if (what == "settled") return scheduler_.is_settled();
    silent(what, step);
    return nullptr;
  }

 private:
  WorkPtr made(Kind kind, const Json& step) {
    const auto id = step.at("id").get<std::string>();
    return works_[id] = std::make_shared<Named>(kind, id);
  }
  const WorkPtr& work(const Json& step) const { return works_.at(step.at("id").get<std::string>()); }

  void silent(const std::string& what, const Json& step) {
    if (what == "task") return scheduler_.task(made(Kind::task, step));
    if (what == "done") return scheduler_.done(work(step));
    if (what == "again") return scheduler_.again(work(step), test::instant(step.at("at")));
    if (what == "resumed") return scheduler_.resumed(work(step));
    if (what == "put_back") return scheduler_.put_back(work(step));
    if (what == "leave") return scheduler_.leave();
    FAIL() << "there is no step " << what;
  }

  Json request(const Json& step) {
    const auto before = works_;
    const WorkPtr asked = made(Kind::request, step);
    asked->sender = step.at("sender").get<std::string>();
    asked->key = step.at("id").get<std::string>();
    asked->deadline = test::instant(step.at("deadline"));
    const Admission said = scheduler_.request(asked);
    if (said != Admission::waiting) works_ = before;
    if (said == Admission::duplicate) return "duplicate";
    return said == Admission::waiting ? "waiting" : "leaving";
  }

  Json message(const Json& step) {
    const WorkPtr sent = made(Kind::message, step);
    sent->sender = step.at("sender").get<std::string>();
    sent->priority = step.at("priority").get<int>();
    if (!step.at("order").is_null()) sent->order = step.at("order").get<std::string>();
    sent->is_event = step.at("event").get<bool>();
    const bool taken = scheduler_.message(sent, test::instant(step.at("now")), step.at("claimed").get<bool>());
    return taken ? text_of(sent->state) : "leaving";
  }

  Json claim(const Json& step) {
    const auto takes = step.at("takes").get<std::vector<std::string>>();
    return scheduler_.claim([&](const Work& one) { return std::ranges::find(takes, name_of(one)) != takes.end(); });
  }

  Json withdraw(const Json& step) {
    const WorkPtr found = scheduler_.withdraw(step.at("sender").get<std::string>(), step.at("id").get<std::string>());
    if (found == nullptr) return nullptr;
    return found->state == State::ended ? "waiting" : "running";
  }

  Json forget(const Json& step) {
    Json told{{"waiting", Json::array()}, {"running", Json::array()}};
    for (const WorkPtr& one :
         scheduler_.forget(step.at("sender").get<std::string>(), [](const Work&) { return true; })) {
      told[one->state == State::ended ? "waiting" : "running"].push_back(name_of(*one));
    }
    return told;
  }

  Json expire(const Json& step) {
    const Overdue found = scheduler_.expire(test::instant(step.at("now")));
    return {{"waiting", names_of(found.waiting)},
            {"running", names_of(found.running)},
            {"unclaimed", names_of(found.unclaimed)}};
  }

  Json next_time() {
    const std::optional<TimePoint> next = scheduler_.next_time();
    return next ? Json(in_seconds(next->time_since_epoch())) : Json(nullptr);
  }

  Scheduler scheduler_;
  std::map<std::string, WorkPtr> works_;
};

TEST(Scheduler, the_published_steps_give_what_they_say_t_1_to_t_13) {
  for (const Json& item : cases("scheduling", "cases")) {
    Replay replay(item.at("workers").get<std::size_t>());
    std::size_t number = 0;
    for (const Json& step : item.at("steps")) {
      const Json expected = step.contains("gives") ? step.at("gives") : Json(nullptr);
      EXPECT_EQ(replay.step(step), expected) << item.at("name") << ", step " << number << ": " << step;
      ++number;
    }
  }
}

TEST(Scheduler, what_is_fetched_does_not_let_another_of_its_sender_run_beside_one_that_runs_t_5) {
  Scheduler scheduler(4);
  const auto make = [&](const char* id, bool is_event, bool claimed) {
    const auto work = std::make_shared<Named>(Kind::message, id);
    work->sender = "a";
    work->is_event = is_event;
    scheduler.message(work, {}, claimed);
    return work;
  };
  make("m1", false, false);
  make("e1", true, true);
  make("e2", true, true);
  const WorkPtr fetched = scheduler.receive();
  EXPECT_EQ(name_of(scheduler.take({})), "e1");
  scheduler.done(fetched);
  EXPECT_EQ(scheduler.take({}), nullptr);
}

}  // namespace
}  // namespace speed::core
