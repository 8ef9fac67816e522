// Everything a program needs: `#include <speed/speed.hpp>`.
#pragma once

#include "speed/access_policy.hpp"
#include "speed/error.hpp"
#include "speed/message.hpp"
#include "speed/node.hpp"
#include "speed/service.hpp"
#include "speed/value.hpp"
