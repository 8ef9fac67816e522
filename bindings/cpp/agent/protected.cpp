#include "protected.hpp"

namespace agent {

namespace {

using Names = std::vector<std::string>;

speed::SignaturePolicy policy_of(const std::string& name) {
  static const std::map<std::string, speed::SignaturePolicy> policies{{"off", speed::SignaturePolicy::off},
                                                                      {"verify", speed::SignaturePolicy::verify},
                                                                      {"require", speed::SignaturePolicy::require}};
  return policies.at(name);
}

// A schema that a test describes: `misfit` is what no payload fits for.
speed::PayloadSchema schema_of(const Json& given) {
  speed::PayloadSchema schema{given.at("hash").get<std::string>(), given.at("personal").get<bool>(), {}};
  schema.check = [given](std::string_view, speed::ByteView) {
    if (!given.at("misfit").is_null()) throw speed::SchemaError(given["misfit"].get<std::string>());
    return given.at("deprecated").get<Names>();
  };
  return schema;
}

speed::Schemas schemas_of(const Json& given) {
  return [given](std::string_view name, std::string_view version) -> std::optional<speed::PayloadSchema> {
    const auto found = given.find(std::string(name) + "/" + std::string(version));
    if (found == given.end()) return std::nullopt;
    return schema_of(*found);
  };
}

speed::Classification classification_of(const std::string& name) {
  static const std::map<std::string, speed::Classification> levels{
      {"public", speed::Classification::public_},
      {"internal", speed::Classification::internal},
      {"confidential", speed::Classification::confidential},
      {"restricted", speed::Classification::restricted}};
  return levels.at(name);
}

speed::MessageSecurity security_of(const Json& command) {
  speed::MessageSecurity security;
  std::vector<speed::MessageKey> keys;
  for (const Json& record : command.at("keys")) keys.push_back(speed::MessageKey::parse(record.dump()));
  security.keys = std::make_shared<speed::KeyStore>(keys);
  security.policy = policy_of(command.at("policy").get<std::string>());
  security.trusted = command.at("trusted").get<Names>();
  security.encrypt_to = command.at("encrypt_to").get<Names>();
  security.compression = command.at("compression").get<std::string>();
  if (!command.at("sign_with").is_null()) security.sign_with = command["sign_with"].get<std::string>();
  if (command.contains("audit"))
    security.audit = std::make_shared<speed::AuditLog>(command["audit"].get<std::string>());
  if (command.contains("schemas")) security.schemas = schemas_of(command["schemas"]);
  return security;
}

}  // namespace

ProtectedNode::ProtectedNode(const Json& command, speed::NodeOptions options) {
  options.allow = command.at("allow").get<Names>();
  options.security = security_of(command);
  node_ = std::make_unique<speed::Node>(command.at("name").get<std::string>(), options);
  node_->on_message([this](speed::Message& message) {
    Json reply{{"payload", agent::json_of(message.payload())},
               {"source", message.source()},
               {"signedBy", text_or_null(message.signed_by())},
               {"openedBy", text_or_null(message.opened_by())},
               {"personal", message.contains_pii()}};
    const std::lock_guard guard(lock_);
    handled_.push_back(std::move(reply));
    changed_.notify_all();
  });
}

Json ProtectedNode::send(const Json& command) {
  speed::SendOptions options;
  options.ack = true;
  options.timeout = speed::Seconds(command.at("timeout").get<double>());
  if (command.contains("classification")) {
    options.protection.classification = classification_of(command["classification"].get<std::string>());
  }
  if (command.contains("schema")) {
    const Names given = command["schema"].get<Names>();
    options.protection.schema = {.name = given.at(0), .version = given.at(1)};
  }
  return node_->send(command.at("target").get<std::string>(), value_of(command.at("payload")), options);
}

Json ProtectedNode::receive(const Json& command) {
  std::unique_lock guard(lock_);
  const std::chrono::duration<double> wait(command.at("timeout").get<double>());
  if (!changed_.wait_for(guard, wait, [this] { return !handled_.empty(); })) return nullptr;
  Json reply = std::move(handled_.front());
  handled_.pop_front();
  return reply;
}

}  // namespace agent
