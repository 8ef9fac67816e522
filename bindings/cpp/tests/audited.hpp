// What a guard writes and opens beside an audit, and the lines of that.
#pragma once

#include <fstream>

#include "fabric.hpp"
#include "message/guard.hpp"
#include "wire/value/json.hpp"

namespace speed::test {

inline constexpr std::int64_t audited_ms = 1'700'000'000'000;

// Messages of `billing`, which `till` sends to `archive`, under an audit in a directory of its own.
struct Audited {
  explicit Audited(const std::vector<MessageKey>& keys = {}) {
    security.keys = std::make_shared<KeyStore>(keys);
    security.audit = std::make_shared<AuditLog>(path);
  }

  static wire::MessageFields fields() {
    wire::MessageFields fields;
    fields.message_id = "id-1";
    fields.topic = "orders.created";
    fields.published_at_ms = audited_ms;
    fields.publisher_id = "billing";
    return fields;
  }

  // By other settings, which tell nothing.
  static wire::MessageView written(const MessageSecurity& by, const Protection& asked = {},
                                   const wire::MessageFields& fields = Audited::fields()) {
    wire::Buffer out;
    message::Guard(by).write(Map{{"card", "4111-1111"}}, fields, asked, out);
    return wire::MessageView(Bytes(out.view().begin(), out.view().end()));
  }
  wire::MessageView quietly(const Protection& asked = {}, const wire::MessageFields& fields = Audited::fields()) const {
    MessageSecurity quiet = security;
    quiet.audit = nullptr;
    return written(quiet, asked, fields);
  }
  wire::MessageView written(const Protection& asked = {}, const wire::MessageFields& fields = Audited::fields()) const {
    return written(security, asked, fields);
  }

  message::Opened opened(const wire::MessageView& view, std::int64_t at_ms = audited_ms) const {
    return message::Guard(security, "archive").open(view, at_ms, "till");
  }

  std::vector<wire::Json> lines() const {
    std::ifstream file(path);
    std::vector<wire::Json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(wire::Json::parse(line));
    return lines;
  }

  // Operations and outcomes.
  std::vector<std::string> told() const {
    std::vector<std::string> told;
    for (const wire::Json& line : lines()) {
      told.push_back(line.at("operation").get<std::string>() + " " + line.at("outcome").get<std::string>());
    }
    return told;
  }

  // A line without its time.
  std::string line(std::size_t number) const {
    wire::Json line = lines().at(number);
    line.erase("time");
    return line.dump();
  }

  // From now on no line can be written.
  void fill() {
    security.audit = std::make_shared<AuditLog>(path, 1, 1);
    std::filesystem::create_directories(path + ".1/taken");
  }

  TestRoot root;
  const std::string path = root.path + "/audit.jsonl";
  MessageSecurity security;
};

}  // namespace speed::test
