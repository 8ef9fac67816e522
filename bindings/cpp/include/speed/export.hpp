// What a program may use of the shared library: everything else in it is hidden.
#pragma once

#define SPEED_EXPORT __attribute__((visibility("default")))
#define SPEED_LOCAL __attribute__((visibility("hidden")))
