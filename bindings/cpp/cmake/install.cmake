# `cmake --install` gives find_package(speed) with the target speed::speed, and pkg-config.
include(CMakePackageConfigHelpers)
