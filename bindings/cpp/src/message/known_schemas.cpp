#include "message/known_schemas.hpp"

#include <algorithm>
#include <system_error>

#include "wire/names/harmless.hpp"

namespace speed::message {

namespace {

constexpr std::size_t max_name_bytes = 128;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

// It may become part of a path.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= max_name_bytes && std::ranges::all_of(text, is_name_character) &&
         text[0] != '.' && text[0] != '-' && text.find("..") == std::string_view::npos;
}

std::string shown(std::string_view name, std::string_view version) {
  return "'" + wire::harmless(name, max_name_bytes) + "' of version '" + wire::harmless(version, max_name_bytes) + "'";
}

}  // namespace

bool KnownSchemas::may_have(const wire::Schema& said) const {
  return schemas_ && !said.name.empty() && !said.version.empty();
}

std::optional<PayloadSchema> KnownSchemas::of(const wire::Schema& said) const {
  std::optional<PayloadSchema> known = find(said.name, said.version);
  if (known && known->hash != said.hash) {
    throw SchemaError("schema_hash: is not that of " + shown(said.name, said.version) + " here");
  }
  return known;
}

std::optional<PayloadSchema> KnownSchemas::of(const wire::SchemaFields& said) const {
  try {
    std::optional<PayloadSchema> known = find(said.name, said.version);
    const bool is_asked = schemas_ && !said.name.empty() && !said.version.empty();
    if (!known && is_asked) throw SchemaError("there is no schema " + shown(said.name, said.version) + " here");
    return known;
  } catch (const SchemasAway& away) {
    throw SchemaError(away.what());
  }
}

// What the program throws is its own matter, and tells no payload: its text stays out.
std::optional<PayloadSchema> KnownSchemas::find(std::string_view name, std::string_view version) const {
  if (!schemas_ || name.empty() || version.empty()) return std::nullopt;
  const std::string which = shown(name, version);
  if (!is_name(name) || !is_name(version)) throw SchemaError(which + " cannot be a schema: use [A-Za-z0-9._-]");
  try {
    return schemas_(name, version);
  } catch (const SchemaError&) {
    throw;
  } catch (const std::system_error& error) {
    throw SchemasAway("the schemas cannot be reached: " + error.code().message());
  } catch (...) {
    throw SchemaError("schema " + which + " could not be looked up");
  }
}

std::vector<std::string> deprecated_in(const PayloadSchema& schema, std::string_view content_type, ByteView payload) {
  try {
    return schema.check(content_type, payload);
  } catch (const SchemaError&) {
    throw;
  } catch (...) {
    throw SchemaError("the payload could not be checked");
  }
}

}  // namespace speed::message
