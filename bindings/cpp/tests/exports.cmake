# What the shared library shows: the public interface, and nothing of what is behind it. Prints how much that is.
#   cmake -DNM=nm -DLIBRARY=libspeed.so -P exports.cmake
set(most 300) # functions; a new public one may raise it

execute_process(COMMAND ${NM} --dynamic --defined-only --demangle ${LIBRARY} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE ";" "," symbols "${symbols}")
string(REGEX MATCHALL "[0-9a-f]+ T [^\n]*" functions "${symbols}")
list(LENGTH functions count)
message("${LIBRARY} exports ${count} functions")

string(REGEX MATCHALL "[0-9a-f]+ [TWVBDR] (typeinfo for |typeinfo name for |vtable for )?speed::(wire|core|fs|engine|message)::[^\n]*" internal "${symbols}")
if(internal)
  list(LENGTH internal inside)
  list(SUBLIST internal 0 20 shown)
  list(JOIN shown "\n  " shown)
  message(FATAL_ERROR "${inside} of them are internal:\n  ${shown}")
endif()
if(count GREATER most)
  message(FATAL_ERROR "more than ${most}")
endif()
