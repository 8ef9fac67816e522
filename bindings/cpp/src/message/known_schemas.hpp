// The schemas of a node's program, asked so that neither they nor what messages name harm the node (M-29).
// Threads: all methods may be called from any thread.
#pragma once

#include <stdexcept>

#include "speed/message_security.hpp"
#include "wire/message/message.hpp"

namespace speed::message {

// The schemas cannot be reached for the moment.
struct SchemasAway : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class KnownSchemas {
 public:
  explicit KnownSchemas(Schemas schemas) : schemas_(std::move(schemas)) {}

  // Whether a received message names a schema that may be here.
  bool may_have(const wire::Schema& said) const;

  // The schema that a received message names, if it is here. SchemaError if the message has another hash; SchemasAway.
  std::optional<PayloadSchema> of(const wire::Schema& said) const;

  // The schema that is to be written; none without schemas here, or without name and version. SchemaError for one that is
  // not here, or of which nobody can tell now.
  std::optional<PayloadSchema> of(const wire::SchemaFields& said) const;

 private:
  std::optional<PayloadSchema> find(std::string_view name, std::string_view version) const;

  const Schemas schemas_;
};

// The deprecated fields of a payload that fits; SchemaError for another, whatever its check throws.
std::vector<std::string> deprecated_in(const PayloadSchema& schema, std::string_view content_type, ByteView payload);

}  // namespace speed::message
