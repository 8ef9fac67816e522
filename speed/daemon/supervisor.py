"""Starts, watches, restarts and stops the processes of a configuration.

Everything here runs on speedd's main thread: ``fds`` and ``next_timer`` say what to wait for, ``readable``,
``reap`` and ``tick`` say what happened. Times are seconds of the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from typing import Any

from speed.daemon.child import Child, Groups, Surroundings
from speed.daemon.config import ProcessSettings
from speed.daemon.control import Trouble
from speed.daemon.guardian import LOOK_SECONDS
from speed.daemon.host import Record
from speed.daemon.pulse import Silence
from speed.errors import ConfigurationError

# The life of a supervised process as one table, and its restart pauses. No I/O, no clock.


class ProcessState(Enum):
    """Where a process is in its life."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting to restart"
    RESTARTING = "ending to start again"
    """It hangs: it was asked to end, and is killed if it does not."""
    STOPPING = "stopping"
    KILLING = "killing"
    ENDED = "ended"


class Event(Enum):
    """What can happen to a process."""

    START = auto()
    REGISTERED = auto()
    """Its node is in the registry."""
    EXITED_WELL = auto()
    EXITED_BADLY = auto()
    PAUSE_OVER = auto()
    STOP = auto()
    HUNG = auto()
    """It did not come up in its time, or its node is gone from the registry while it runs."""
    TOO_SLOW = auto()
    """The stop timeout passed."""


class Action(Enum):
    """What the supervisor does on a transition."""

    NONE = auto()
    SPAWN = auto()
    PAUSE = auto()
    TERMINATE = auto()
    KILL = auto()
    FORGET = auto()
    """The process is gone; nothing more to do."""


S, E, A = ProcessState, Event, Action

TRANSITIONS: dict[tuple[ProcessState, Event], tuple[ProcessState, Action]] = {
    (S.STOPPED, E.START): (S.STARTING, A.SPAWN),
    (S.ENDED, E.START): (S.STARTING, A.SPAWN),
    (S.STARTING, E.REGISTERED): (S.RUNNING, A.NONE),
    (S.STARTING, E.EXITED_WELL): (S.WAITING, A.PAUSE),
    (S.STARTING, E.EXITED_BADLY): (S.WAITING, A.PAUSE),
    (S.STARTING, E.STOP): (S.STOPPING, A.TERMINATE),
    (S.RUNNING, E.EXITED_WELL): (S.WAITING, A.PAUSE),
    (S.RUNNING, E.EXITED_BADLY): (S.WAITING, A.PAUSE),
    (S.RUNNING, E.STOP): (S.STOPPING, A.TERMINATE),
    (S.STARTING, E.HUNG): (S.RESTARTING, A.TERMINATE),
    (S.RUNNING, E.HUNG): (S.RESTARTING, A.TERMINATE),
    (S.RESTARTING, E.EXITED_WELL): (S.WAITING, A.PAUSE),
    (S.RESTARTING, E.EXITED_BADLY): (S.WAITING, A.PAUSE),
    (S.RESTARTING, E.TOO_SLOW): (S.RESTARTING, A.KILL),
    (S.RESTARTING, E.STOP): (S.STOPPING, A.TERMINATE),
    (S.WAITING, E.PAUSE_OVER): (S.STARTING, A.SPAWN),
    (S.WAITING, E.STOP): (S.STOPPED, A.FORGET),
    (S.STOPPING, E.EXITED_WELL): (S.STOPPED, A.FORGET),
    (S.STOPPING, E.EXITED_BADLY): (S.STOPPED, A.FORGET),
    (S.STOPPING, E.TOO_SLOW): (S.KILLING, A.KILL),
    (S.KILLING, E.EXITED_WELL): (S.STOPPED, A.FORGET),
    (S.KILLING, E.EXITED_BADLY): (S.STOPPED, A.FORGET),
    (S.ENDED, E.STOP): (S.STOPPED, A.FORGET),
}
"""(state, event) -> (next state, action). What is not listed changes nothing."""

RESTARTS: dict[str, frozenset[Event]] = {
    "always": frozenset({E.EXITED_WELL, E.EXITED_BADLY}),
    "on-failure": frozenset({E.EXITED_BADLY}),
    "never": frozenset(),
}
"""Restart policy -> the exits after which a process is started again."""


def step(state: ProcessState, event: Event, restart: str) -> tuple[ProcessState, Action]:
    """The next state and what to do. ``restart`` is a policy of RESTARTS."""
    following, action = TRANSITIONS.get((state, event), (state, Action.NONE))
    if following is ProcessState.WAITING and event not in RESTARTS[restart]:
        return ProcessState.ENDED, Action.FORGET
    return following, action


@dataclass
class Backoff:
    """Pauses before a restart: doubled each time, from the start again after a stable run. In seconds."""

    first: float = 0.5
    longest: float = 30.0
    stable: float = 10.0
    _next: float = 0.0

    def pause(self, ran_seconds: float) -> float:
        """How long to wait before the next start, after a run of ``ran_seconds``."""
        if ran_seconds >= self.stable or not self._next:
            self._next = self.first
        pause = self._next
        self._next = min(self._next * 2, self.longest)
        return pause


RECORDS_A_SECOND = 1000
MAX_RECORDS_AT_ONCE = 10_000
"""What one process may print into the log: what others say is not to be lost among its lines."""


class PrintedLog:
    """What one process prints, in the log: a record for each line or traceback."""

    def __init__(self, log: Any, clock: Callable[[], float]) -> None:
        self._log, self._clock = log, clock
        self._left, self._since = float(MAX_RECORDS_AT_ONCE), clock()
        self._dropped = 0

    def write(self, stream: str, record: Record) -> None:
        """A traceback is an error, and is always kept; of other records those beyond the budget are only counted."""
        now = self._clock()
        self._left = min(MAX_RECORDS_AT_ONCE, self._left + (now - self._since) * RECORDS_A_SECOND)
        self._since = now
        if record.is_failure:
            self._log.error("output", stream=stream, text=record.text)
        elif self._left < 1:
            self._dropped += 1
        else:
            self._left -= 1
            self.tell_dropped()
            self._log.info("output", stream=stream, text=record.text)

    def tell_dropped(self) -> None:
        """Say how many records were not kept since this was last said."""
        if self._dropped:
            self._log.warning("output_dropped", records=self._dropped)
            self._dropped = 0


DRAINED_READS = 64
"""Reads of a pipe that an ended process left: what it started elsewhere may write to it for ever."""


class Supervised:
    """One process of the configuration, through all its starts."""

    def __init__(
        self,
        settings: ProcessSettings,
        around: Surroundings,
        groups: Groups,
        log: Any,
        printed: Any,
        clock: Callable[[], float],
    ) -> None:
        """``printed`` is the log of what processes print, whatever the level of ``log``."""
        self.settings = settings
        self.state = ProcessState.STOPPED
        self.child: Child | None = None
        self.starts = 0
        self.timer: float | None = None
        """When the patience with a start or an end is over, or the pause before a restart."""
        self.was_ready = False
        self.last_end = ""
        """How the process ended last, in words."""
        self._around = around
        self._groups = groups
        self._log = log.bind(process=settings.name)
        self._printed = PrintedLog(printed.bind(process=settings.name), clock)
        self._clock = clock
        self._backoff = Backoff()
        self._started_at = 0.0
        self._missing_since: float | None = None
        self._silence = Silence()
        self._start_again = False
        self._actions: dict[Action, Callable[[], None]] = {
            Action.SPAWN: self._spawn,
            Action.PAUSE: self._pause,
            Action.TERMINATE: self._terminate,
            Action.KILL: self._kill,
            Action.FORGET: self._forget,
            Action.NONE: lambda: None,
        }

    def status(self) -> dict[str, Any]:
        """How it is, as JSON has it."""
        return {
            "name": self.settings.name,
            "state": self.state.value,
            "pid": self.child.pid if self.child else None,
            "starts": self.starts,
            "seconds": round(self._clock() - self._started_at, 3) if self.starts else None,
            "last_end": self.last_end,
        }

    def trouble(self) -> Trouble | None:
        """Why it does not serve; None where it does, or is not to."""
        name, state = self.settings.name, self.state
        if self._silence.is_trouble and state is ProcessState.RUNNING:
            limit = self.settings.ping_timeout_seconds
            cure = f"it is ended and started again after {limit:g} s; " if limit else ""
            return Trouble(f"process {name} {self._silence.reason}", f"{cure}`speedd restart {name}` does that at once")
        is_right = state in (ProcessState.RUNNING, ProcessState.STOPPED)
        if is_right or (state is ProcessState.ENDED and self.last_end == "status 0"):
            return None
        ended = f"; it ended last with {self.last_end}" if self.last_end else ""
        cure = f"see what it printed in the log; `speedd restart {name}` starts it at once"
        return Trouble(f"process {name} is {state.value}{ended}", cure)

    def happened(self, event: Event) -> None:
        """Apply one event: the table decides, this acts."""
        before = self.state
        self.state, action = step(before, event, self.settings.restart)
        if self.state is not before:
            self._log.debug("state", was=before.value, now=self.state.value)
        if self.state is ProcessState.RUNNING and before is ProcessState.STARTING:
            self.was_ready, self.timer, self._missing_since, self._silence = True, None, None, Silence()
            self._log.info("process_ready", seconds=round(self._clock() - self._started_at, 3))
        self._actions[action]()

    @property
    def is_stopped(self) -> bool:
        return self.state is ProcessState.STOPPED

    def stop(self) -> None:
        """Ask it to end; asking again changes nothing."""
        self._start_again = False
        self.happened(Event.STOP)

    def start_again(self) -> None:
        """End it and start it anew; one that does not run is started."""
        if self.state is ProcessState.WAITING:
            self.timer = None
            self.happened(Event.PAUSE_OVER)
        elif self.child is None:
            self.happened(Event.START)
        else:
            self._start_again = True
            self.happened(Event.STOP)

    def tick(self) -> None:
        """Act on a timer that ran out."""
        for stream, record in self.child.quiet() if self.child else ():
            self._printed.write(stream, record)
        if self.timer is None or self._clock() < self.timer:
            return
        self.timer = None
        if self.state is ProcessState.STARTING:
            self.hangs(f"did not come up in {self.settings.start_timeout_seconds:g} s")
        else:
            self.happened(Event.PAUSE_OVER if self.state is ProcessState.WAITING else Event.TOO_SLOW)

    def next_timer(self) -> float | None:
        quiet_at = self.child.quiet_at() if self.child else None
        return min((timer for timer in (self.timer, quiet_at) if timer is not None), default=None)

    def hangs(self, why: str) -> None:
        """End it, and start it again as the policy says."""
        self._log.warning("process_hangs", reason=why)
        self.happened(Event.HUNG)

    def seen(self, is_live: bool, patience_seconds: float) -> None:
        """Whether its node is in the registry, live. One that runs without it hangs, or was stopped by a signal."""
        if is_live or self.state is not ProcessState.RUNNING:
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = self._clock()
        elif self._clock() - self._missing_since >= patience_seconds:
            self.hangs("its node is not in the registry any more: its lease ran out, or it closed its node")

    def judge(self, unanswered_seconds: float) -> None:
        """End it if it served nobody for too long. What a signal stopped hears no other: it is killed at once."""
        if self.child is None or self.state is not ProcessState.RUNNING:
            return
        self._silence.look(self.child.pid, unanswered_seconds, self._clock())
        limit = self.settings.ping_timeout_seconds
        if not limit or self._silence.seconds < limit:
            return
        self.hangs(f"it {self._silence.reason}: for {self._silence.seconds:.1f} s")
        if self._silence.frozen_seconds:
            self.child.kill()

    def reap(self) -> None:
        """Notice that the process ended."""
        status = self.child.exit_status() if self.child else None
        if self.child is None or status is None:
            return
        for fd in self.child.descriptors():
            self._drain(fd)
        self._printed.tell_dropped()
        self.child.close()
        self._groups.remove(self.child.pid)
        hung = self.state is ProcessState.RESTARTING
        is_requested = self.state in (ProcessState.STOPPING, ProcessState.KILLING)
        (self._log.info if is_requested or status == 0 else self._log.warning)(
            "process_ended", pid=self.child.pid, status=status, seconds=round(self._clock() - self._started_at, 3)
        )
        self.child = None
        self.last_end = f"signal {-status}" if status < 0 else f"status {status}"
        self.happened(Event.EXITED_WELL if status == 0 and not hung else Event.EXITED_BADLY)
        if self._start_again and self.is_stopped:
            self._start_again = False
            self.happened(Event.START)

    def readable(self, fd: int) -> None:
        """Log what one pipe of the process holds."""
        if self.child is None:
            return
        stream, records, ended = self.child.read(fd)
        for record in records:
            if stream == "ready":
                self.happened(Event.REGISTERED)
            else:
                self._printed.write(stream, record)
        if ended:
            self.child.forget(fd)

    def change(self, settings: ProcessSettings) -> None:
        """Take over the settings of a reloaded configuration: grants as it runs, all else by a start."""
        before, self.settings = self.settings, settings
        if replace(before, allow=settings.allow) != settings:
            self._log.info("process_changed")
            self.start_again()
        elif before.allow != settings.allow:
            self._change_grants(settings)

    def _change_grants(self, settings: ProcessSettings) -> None:
        is_applied = self.child.grant(settings.allow) if self.child else False
        self._log.info("grants_changed", allow=list(settings.allow), restart=not is_applied)
        if self.child and not is_applied:
            self.start_again()  # a command learns its grants when it starts

    def _drain(self, fd: int) -> None:
        """Read what an ended process left in a pipe."""
        for _ in range(DRAINED_READS):
            stream, records, ended = self.child.read(fd) if self.child else ("", [], True)
            for record in records:
                self._printed.write(stream, record)
            if ended or not records:
                return

    def _spawn(self) -> None:
        self.starts += 1
        self._started_at = self._clock()
        self.timer = self._started_at + self.settings.start_timeout_seconds
        try:
            self.child = Child(self.settings, self._around)
        except OSError as error:
            self._log.error("process_not_started", reason=str(error))
            self.happened(Event.EXITED_BADLY)
            return
        self._groups.add(self.child.pid, self.settings.stop_timeout_seconds, self.child.mark)
        self._log.info("process_started", pid=self.child.pid, start=self.starts)

    def _pause(self) -> None:
        pause = self._backoff.pause(self._clock() - self._started_at)
        self.timer = self._clock() + pause
        self._log.warning("process_restarts", after_seconds=pause)

    def _terminate(self) -> None:
        self.timer = self._clock() + self.settings.stop_timeout_seconds
        if self.child:
            self.child.terminate()

    def _kill(self) -> None:
        self._log.warning("process_killed", reason=f"did not end in {self.settings.stop_timeout_seconds:g} s")
        if self.child:
            self.child.kill()

    def _forget(self) -> None:
        self.timer = None


class Supervisor:
    """All processes, started in the configuration's order and stopped in the reverse one."""

    def __init__(
        self,
        settings: Iterable[ProcessSettings],
        around: Surroundings,
        groups: Groups,
        log: Any,
        printed: Any,
        clock: Callable[[], float],
    ) -> None:
        self._made = partial(Supervised, around=around, groups=groups, log=log, printed=printed, clock=clock)
        self._settings = list(settings)
        self.processes = [self._made(one) for each in self._settings for one in each.instances()]
        self._leaving: list[Supervised] = []
        """Those that a reload took out, until they have ended."""
        self._clock = clock
        self._stopping = False

    def start(self) -> None:
        """Start every process."""
        for process in self.processes:
            process.happened(Event.START)

    def take_over(self, settings: Sequence[ProcessSettings]) -> None:
        """The processes of a reloaded configuration: new ones start, removed ones stop, changed ones start again."""
        self._settings = list(settings)
        self._become([one for each in settings for one in each.instances()])

    def scale(self, name: str, count: int) -> list[str]:
        """Have so many of a process run until the next reload; their names. Raises ConfigurationError."""
        found = next((one for one in self._settings if one.name == name), None)
        if found is None or found.count is None:
            known = ", ".join(one.name for one in self._settings if one.count is not None) or "none"
            raise ConfigurationError(f"speedd has no process {name!r} with a count; those that have one: {known}")
        scaled = replace(found, count=count)
        names = [one.name for one in scaled.instances()]
        others = {one.name for each in self._settings if each is not found for one in each.instances()}
        taken = others.intersection(names)
        if taken:
            raise ConfigurationError(f"the name {min(taken)!r} is that of another process")
        self._settings = [scaled if one is found else one for one in self._settings]
        self._become([one for each in self._settings for one in each.instances()])
        return names

    def restart(self, name: str) -> int:
        """End a process and start it anew; how often it was started before. Raises ConfigurationError."""
        process = self.named(name)
        if process is None:
            known = ", ".join(one.settings.name for one in self.processes) or "none"
            raise ConfigurationError(f"speedd has no process {name!r}; it has {known}")
        process.start_again()
        return process.starts

    def _become(self, settings: Sequence[ProcessSettings]) -> None:
        known = {one.settings.name: one for one in self._every()}
        before, self.processes = self.processes, [known.get(one.name) or self._made(one) for one in settings]
        gone = [one for one in before if one not in self.processes]
        self._leaving = [one for one in (*self._leaving, *gone) if one not in self.processes]
        for process in reversed(gone):
            process.stop()
        for process, wanted in zip(self.processes, settings, strict=True):
            if process in before:
                process.change(wanted)
            else:  # new, or taken out and still ending
                process.settings = wanted
                process.start_again()

    def _every(self) -> list[Supervised]:
        return [*self.processes, *self._leaving]

    def fds(self) -> dict[int, Supervised]:
        """Descriptors to watch for reading, and whose they are."""
        return {fd: one for one in self._every() if one.child for fd in one.child.descriptors()}

    def next_timer(self) -> float | None:
        """The earliest moment at which ``tick`` has something to do."""
        timers = [timer for one in self._every() if (timer := one.next_timer()) is not None]
        if any(one.child and one.child.is_leaving for one in self._every()):
            timers.append(self._clock() + LOOK_SECONDS)
        return min(timers, default=None)

    def tick(self) -> None:
        """Let timers run out, notice ended processes, and go on with stopping."""
        for process in self._every():
            process.reap()
            process.tick()
        self._leaving = [one for one in self._leaving if not one.is_stopped]
        if self._stopping:
            self._stop_last()

    def seen(self, live: Mapping[str, str], patience_seconds: float) -> None:
        """The live nodes of the registry, with their status. A process that is long without its node hangs."""
        self.registered({name for name, status in live.items() if status == "online"})
        for process in self.processes:
            process.seen(process.settings.name in live, patience_seconds)

    def pinged(self) -> dict[str, float]:
        """The nodes that are to be pinged, and after how many seconds of silence each is ended."""
        running = (one.settings for one in self.processes if one.state is ProcessState.RUNNING)
        return {one.name: one.ping_timeout_seconds for one in running if one.ping_timeout_seconds}

    def judge(self, silent_seconds: Mapping[str, float]) -> None:
        """End what hangs; ``silent_seconds``: how long each of those that are pinged did not answer."""
        for process in self.processes:
            process.judge(silent_seconds.get(process.settings.name, 0.0))

    def registered(self, names: set[str]) -> None:
        """These nodes are in the registry now: commands among them are ready."""
        for process in self.processes:
            if process.settings.name in names and process.settings.entry is None and process.child:
                process.happened(Event.REGISTERED)

    def stop(self) -> None:
        """Begin to stop: one process after the other, the last started first."""
        self._stopping = True
        self._stop_last()

    def troubles(self) -> list[Trouble]:
        """What keeps processes from serving."""
        return [trouble for process in self.processes if (trouble := process.trouble()) is not None]

    def named(self, name: str) -> Supervised | None:
        return next((one for one in self.processes if one.settings.name == name), None)

    def kill(self) -> None:
        """End all processes at once."""
        for process in self._every():
            if process.child:
                process.child.kill()

    def _stop_last(self) -> None:
        for process in reversed(self.processes):
            process.stop()
            if not process.is_stopped:
                return

    @property
    def is_stopped(self) -> bool:
        return all(process.is_stopped for process in self._every())

    @property
    def is_ready(self) -> bool:
        """Every process came up at least once, or ended for good."""
        return all(process.was_ready or process.state is ProcessState.ENDED for process in self.processes)

    def unready(self) -> list[str]:
        """Names of processes that never came up."""
        return [process.settings.name for process in self.processes if not process.was_ready]
