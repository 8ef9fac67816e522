// The life of a node as one state, and what may follow what. A node that is closed never loses its lease, and one
// that lost it is never closed in order.
// Threads: not thread-safe; its owner guards it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace speed::core {

enum class NodeState : std::uint8_t {
  preparing,  // it has its name and reads nothing yet
  serving,
  leaving,  // it takes nothing more, and finishes what it has
  closed,  // its methods throw NodeClosedError
  lost,  // its methods throw LeaseLostError
};

enum class NodeEvent : std::uint8_t { start, leave, close, lose };

// The state after an event; nothing where that is no event of this state.
constexpr std::optional<NodeState> next_state(NodeState state, NodeEvent event) {
  using enum NodeState;
  constexpr std::optional<NodeState> none;
  using Row = std::array<std::optional<NodeState>, 4>;
  //                                  start    leave    close   lose
  constexpr std::array<Row, 5> table{Row{serving, leaving, none, lost},  // preparing
                                     Row{none, leaving, none, lost},  // serving
                                     Row{none, none, closed, lost},  // leaving
                                     Row{none, none, none, none},  // closed
                                     Row{none, none, none, none}};  // lost
  return table[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}

constexpr bool is_leaving(NodeState state) { return state >= NodeState::leaving; }
constexpr bool has_ended(NodeState state) { return state >= NodeState::closed; }

}  // namespace speed::core
