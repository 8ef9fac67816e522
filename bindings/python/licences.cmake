# The licences of the libraries that are linked in, as Debian keeps them.
foreach(package libsodium-dev libssl-dev libsqlite3-dev libmsgpack-cxx-dev nlohmann-json3-dev)
  set(copyright /usr/share/doc/${package}/copyright)
  if(EXISTS ${copyright})
    install(FILES ${copyright} DESTINATION ${SKBUILD_METADATA_DIR}/licenses/linked RENAME ${package}.txt
      COMPONENT native EXCLUDE_FROM_ALL)
  endif()
endforeach()
file(GLOB nanobind_licence ${nanobind_DIR}/../../nanobind-*.dist-info/licenses/LICENSE)
install(FILES ${nanobind_licence} DESTINATION ${SKBUILD_METADATA_DIR}/licenses/linked RENAME nanobind.txt
  COMPONENT native EXCLUDE_FROM_ALL OPTIONAL)
