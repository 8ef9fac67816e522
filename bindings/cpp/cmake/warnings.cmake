# Every warning is an error in our own code; sanitizers hold for everything.
if(SPEED_SANITIZE)
  add_compile_options(-fsanitize=${SPEED_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SPEED_SANITIZE})
endif()

function(speed_strict target)
  # GCC 12 sees overlaps in std::string that are none (its bug 105651).
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wno-restrict -Werror)
endfunction()
