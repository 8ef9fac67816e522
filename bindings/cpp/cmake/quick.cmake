# For builds that only run tests or the fuzzer (scripts/cpp asan, tsan, coverage, fuzz). What nearly every file of the library
# includes is compiled once, and its files several at once (together.cmake), as those of tests and agent. The plain build
# does without, so that each file includes what it uses. One private name in two files of tests is an error here.
# Given as CMAKE_PROJECT_INCLUDE, it is read before there are targets, and acts when all of them are known.
set(SPEED_STANDARD_HEADERS
    <algorithm> <array> <atomic> <chrono> <cstdint> <deque> <filesystem> <fstream> <functional> <map> <memory> <mutex>
    <optional> <random> <set> <string> <thread> <unordered_map> <utility> <variant> <vector>)

function(speed_quicken)
  target_precompile_headers(speed PRIVATE ${SPEED_STANDARD_HEADERS})
  speed_together()
  if(SPEED_SANITIZE) # these go over each byte of a payload: parity alone made the tests three times as long
    set(bytewise ${SPEED_SOURCES})
    list(FILTER bytewise INCLUDE REGEX "src/segment/|/(buffer|bytes|forms|spc|utf8)\\.cpp$")
    set_source_files_properties(${bytewise} PROPERTIES COMPILE_OPTIONS -O1 SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

cmake_language(DEFER DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} CALL speed_quicken)
