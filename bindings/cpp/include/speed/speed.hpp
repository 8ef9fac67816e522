// Everything a program needs: `#include <speed/speed.hpp>`. Threads: a Node is for all of them (node.hpp), what it hands
// out for one at a time.
#pragma once

#include "speed/access_policy.hpp"
#include "speed/audit_log.hpp"
#include "speed/column.hpp"
#include "speed/conversion.hpp"
#include "speed/error.hpp"
#include "speed/large.hpp"
#include "speed/log.hpp"
#include "speed/message.hpp"
#include "speed/message_error.hpp"
#include "speed/message_key.hpp"
#include "speed/message_security.hpp"
#include "speed/names.hpp"
#include "speed/node.hpp"
#include "speed/options.hpp"
#include "speed/root.hpp"
#include "speed/segment.hpp"
#include "speed/service.hpp"
#include "speed/service_error.hpp"
#include "speed/topic.hpp"
#include "speed/value.hpp"
