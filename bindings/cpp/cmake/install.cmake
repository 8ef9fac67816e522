# `cmake --install` gives find_package(speed) with the targets speed::speed, which is static, and speed::shared; and pkg-config.
include(CMakePackageConfigHelpers)
set(speed_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/speed)

set(speed_libraries speed)
if(TARGET speed-shared)
  list(APPEND speed_libraries speed-shared)
endif()
install(TARGETS ${speed_libraries} EXPORT speed-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# `--strip` leaves static libraries alone. Without debugging symbols one is of use as before, and a thirtieth of the size.
install(CODE "if(CMAKE_INSTALL_DO_STRIP)
  execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-debug
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:speed>\" COMMAND_ERROR_IS_FATAL ANY)
endif()")
install(DIRECTORY include/speed DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT speed-targets NAMESPACE speed:: DESTINATION ${speed_package_dir})

configure_package_config_file(cmake/speed-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/speed-config.cmake
  INSTALL_DESTINATION ${speed_package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/speed-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/speed-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/speed-config-version.cmake
  DESTINATION ${speed_package_dir})

file(RELATIVE_PATH SPEED_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(SPEED_PC_REQUIRES "libsodium sqlite3")
if(SPEED_MESSAGES)
  string(APPEND SPEED_PC_REQUIRES " zlib libzstd liblz4 snappy")
endif()
if(OpenSSL_FOUND)
  string(APPEND SPEED_PC_REQUIRES " libcrypto")
endif()
configure_file(cmake/speed.pc.in ${CMAKE_CURRENT_BINARY_DIR}/speed.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/speed.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
