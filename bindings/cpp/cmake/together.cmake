# Compiles the files that decide, read files and run nodes eight at once, and those of the tests, in less than half of the
# time: for who builds once, such as a wheel or CI. The plain build compiles each alone, and after a change only that one. One private name
# in two of these files may be an error here.
function(speed_together)
  set(alone ${SPEED_SOURCES})
  list(FILTER alone EXCLUDE REGEX "src/(core|fs|engine|topics|node)/")
  set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(speed PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  if(CMAKE_CXX_FLAGS_RELWITHDEBINFO MATCHES "-g( |$)") # the lines of a back trace are enough, and are made sooner
    target_compile_options(speed PRIVATE -g1)
  endif()
  if(SPEED_TESTS)
    get_property(tests GLOBAL PROPERTY SPEED_TEST_TARGETS)
    set_target_properties(${tests} speed-agent-cpp PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
endfunction()
