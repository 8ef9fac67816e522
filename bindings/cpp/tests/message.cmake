# The message envelope of registry_spec/proto, generated for protobuf's lite runtime: a second opinion on what the library
# writes and reads by itself.
# `google.protobuf.Any` exists in the full runtime only; on the wire it is a length-delimited field like `bytes`.
speed_need(PROTOBUF_LITE protobuf-lite libprotobuf-dev)
find_program(PROTOC protoc)
if(NOT PROTOC)
  message(FATAL_ERROR "protoc is missing: install protobuf-compiler")
endif()

set(SPEED_MESSAGE_DIR ${CMAKE_CURRENT_BINARY_DIR}/message)
set(SPEED_MESSAGE_PROTO ${SPEED_SPEC}/proto/message.proto)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SPEED_MESSAGE_PROTO})
file(READ ${SPEED_MESSAGE_PROTO} proto)
string(REPLACE "import \"google/protobuf/any.proto\";" "" proto "${proto}")
string(REPLACE "google.protobuf.Any payload" "bytes payload" proto "${proto}")
file(CONFIGURE OUTPUT ${SPEED_MESSAGE_DIR}/message.proto CONTENT "${proto}" @ONLY)

add_custom_command(
  OUTPUT ${SPEED_MESSAGE_DIR}/message.pb.cc ${SPEED_MESSAGE_DIR}/message.pb.h
  COMMAND ${PROTOC} --cpp_out=lite:${SPEED_MESSAGE_DIR} -I ${SPEED_MESSAGE_DIR} ${SPEED_MESSAGE_DIR}/message.proto
  DEPENDS ${SPEED_MESSAGE_DIR}/message.proto)
add_library(speed_message OBJECT ${SPEED_MESSAGE_DIR}/message.pb.cc ${SPEED_MESSAGE_DIR}/message.pb.h)
target_include_directories(speed_message SYSTEM PUBLIC ${SPEED_MESSAGE_DIR})
target_link_libraries(speed_message PUBLIC PkgConfig::PROTOBUF_LITE)
