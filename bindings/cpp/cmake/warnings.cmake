# Every warning is an error in our own code, but not where pip builds with whatever compiler there is; sanitizers hold for everything.
if(SPEED_SANITIZE)
  add_compile_options(-fsanitize=${SPEED_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SPEED_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_compile_options(-fsanitize-ignorelist=${CMAKE_CURRENT_LIST_DIR}/sanitized.txt -D_GLIBCXX_ASSERTIONS)
  endif()
endif()

function(speed_strict target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow $<$<BOOL:${SPEED_WERROR}>:-Werror>)
  # Which lock guards what (src/wire/mutex.hpp), and of two that are held at once which is taken first.
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE -Wthread-safety -Wthread-safety-beta
      $<$<BOOL:${SPEED_WERROR}>:-Werror=thread-safety>)
  endif()
  # GCC 12 sees an overlap in "text" + std::string at -O3 (its bug 105651), and members of a variant that another
  # alternative holds as uninitialized where sanitizers keep it from seeing the index.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)
    if(SPEED_SANITIZE)
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
  endif()
endfunction()
