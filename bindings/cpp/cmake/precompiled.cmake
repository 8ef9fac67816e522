# For builds that only run tests (scripts/cpp asan, tsan, coverage, fuzz): what nearly every file includes is compiled once a
# target, which saves a fifth of their time. The plain and the release build do without, so that each file includes what it uses.
# Given as CMAKE_PROJECT_INCLUDE, it is read before there are targets, and acts when all of them are known.
set(SPEED_STANDARD_HEADERS
    <algorithm> <array> <atomic> <chrono> <cstdint> <deque> <filesystem> <fstream> <functional> <map> <memory> <mutex>
    <optional> <random> <set> <string> <thread> <unordered_map> <utility> <variant> <vector>)

function(speed_precompile)
  target_precompile_headers(speed PRIVATE ${SPEED_STANDARD_HEADERS})
  if(TARGET speed-tests)
    target_precompile_headers(speed-tests PRIVATE ${SPEED_STANDARD_HEADERS} <gtest/gtest.h> <nlohmann/json.hpp>)
    target_precompile_headers(speed-agent-cpp PRIVATE ${SPEED_STANDARD_HEADERS} <nlohmann/json.hpp>)
  endif()
endfunction()

cmake_language(DEFER DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} CALL speed_precompile)
