"""``speedd run``: hosts a node with services, supervises processes, keeps the registry clean.

One loop on the main thread waits for signals, for the processes' pipes and for timers. The node's own threads
do the node's work.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import selectors
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from speed import Node
from speed.bridges.running import Bridging, Events
from speed.core.access import may_look
from speed.daemon.child import Forwarded, Groups, LogFile, Surroundings, open_log
from speed.daemon.config import Config, LogSettings
from speed.daemon.control import (
    Died,
    Health,
    ServiceNotifier,
    Trouble,
    checked_count,
    checked_name,
    opened_control,
    topicless_bridge,
    waiting_bridge,
    waiting_for_restart,
)
from speed.daemon.host import change_grants, load_service
from speed.daemon.hosting import (
    Hosting,
    MessageKeyRotation,
    Recording,
    Resealing,
    SpeeddParts,
    let_look,
    opened_console,
    own_node,
)
from speed.daemon.metrics import DaemonParts, Exposing
from speed.daemon.pulse import LOOK_SECONDS, Pulse
from speed.daemon.reload import Gateways, differences, taken_over
from speed.daemon.supervisor import Supervisor
from speed.daemon.surroundings_check import key_path, sound_config
from speed.errors import ConfigurationError, LeaseLostError, RootError, SpeedError, StorageError
from speed.fs.identity import try_lock
from speed.fs.keyfile import KeySource
from speed.fs.registry import Registry
from speed.wire import names
from speed.wire.names import GATEWAY

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from speed.console.server import Console
    from speed.daemon.hosting import Joining


START_PATIENCE_SECONDS = 30.0
"""After this long speedd reports ready without the processes that did not come up."""
LEAST_ROOM_BYTES = 1 << 20
"""A root with less is full: an envelope may need as much."""
MISSED_HEARTBEATS = 2
"""How many a process may run without its node, before it is started again."""
STARTING_POLL_SECONDS = 0.1
"""How often the registry is looked at while commands start."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


@contextmanager
def _signal_pipe() -> Iterator[int]:
    """A descriptor on which each signal of SIGNALS arrives as one byte, its number."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    handlers = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
    previous = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(previous)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


class Daemon:
    """A running speedd."""

    def __init__(
        self,
        config: Config,
        node: Node,
        recording: Recording | None,
        hosting: Hosting | None,
        gateways: Gateways,
        bridging: Bridging,
        metrics: Exposing,
        console: Console | None,
        sink: LogFile,
        log: Any,
        ready_fd: int | None,
        health: Health,
    ) -> None:
        self._config = config
        self._node = node
        self._recording = recording
        self._hosting = hosting
        self._health = health
        self._gateways = gateways
        self._bridging = bridging
        self._metrics = metrics
        self._console = console
        self._sink = sink
        self._log = log
        self._ready_fd = ready_fd
        self._notifier = ServiceNotifier()
        key = key_path(config)
        self._keys = KeySource(key)
        self._registry = Registry(node.root, self._keys.keyring)
        sources = [kept.reseal for kept in (recording, hosting) if kept is not None]
        self._resealing = Resealing(sources, self._keys, log)
        self._rotation = MessageKeyRotation(config.encryption, log)
        around = Surroundings(config, node.root, key)
        self._groups = Groups(log)
        self._died = Died()
        printed = open_log(sink, all_levels=True, node=config.node.name)
        self._supervisor = Supervisor(config.processes, around, self._groups, log, printed, time.monotonic)
        let_look(node, log)
        self._pulse = Pulse(lambda name, seconds: node.ping(name, timeout=seconds))
        self._requests = {
            "status": self._status,
            "reload": self._reload_now,
            "stop": self._stop_now,
            "restart": self._restart_named,
            "scale": self._scale_named,
            "compare": self._compare,
            "console": self._console_address,
        }
        self._control = opened_control(node.root, self._answer, log)
        self._stop_signals = 0
        self._is_ready = False
        self._status_line = ""
        self._failed = False
        now = time.monotonic()
        self._patience_ends = now + START_PATIENCE_SECONDS
        self._next_sweep = now + config.node.heartbeat_seconds
        self._next_sign = self._next_look = now

    def run(self, signals: int) -> int:
        """Run until stopped by a signal, which ``signals`` tells, or by the loss of the lease: the exit status."""
        try:
            self._supervisor.start()
            while not (self._stop_signals and self._supervisor.is_stopped):
                self._wait(signals)
                self._supervisor.tick()
                self._timers()
        finally:
            if self._control is not None:
                self._control.close()
            self._groups.close()
            self._pulse.close()
            self._resealing.close()
        self._log.info("stopped", failed=self._failed)
        return 1 if self._failed else 0

    def _wait(self, signals: int) -> None:
        """Sleep until something happens, and handle the descriptors that did."""
        fds = self._supervisor.fds()
        with selectors.DefaultSelector() as selector:
            control = () if self._control is None else (self._control.fileno(),)
            for fd in (signals, *control, *fds):
                selector.register(fd, selectors.EVENT_READ)
            ready = [key.fd for key, _ in selector.select(max(0.0, self._next_timer() - time.monotonic()))]
        for fd in ready:
            if fd == signals:
                for number in os.read(signals, 4096):
                    self._signalled(number)
            elif fd in fds:
                fds[fd].readable(fd)
            elif self._control is not None:
                self._control.readable()

    def _next_timer(self) -> float:
        timers = [self._next_sweep, self._supervisor.next_timer()]
        if self._supervisor.processes:
            timers.append(self._next_look)
        if not self._is_ready:
            timers.append(time.monotonic() + STARTING_POLL_SECONDS)
        if self._notifier.watchdog_seconds:
            timers.append(self._next_sign)
        return min(timer for timer in timers if timer is not None)

    def _signalled(self, number: int) -> None:
        if number == signal.SIGHUP:
            self._reload()
        elif number in (signal.SIGTERM, signal.SIGINT):
            self._stop(signal.Signals(number).name)

    def _stop(self, why: str) -> None:
        """First time: drain and leave. Second time: end the processes at once."""
        self._stop_signals += 1
        self._log.info("stopping", reason=why, at_once=self._stop_signals > 1)
        if self._stop_signals == 1:
            self._notifier.stopping()
            self._supervisor.stop()
        else:
            self._supervisor.kill()

    def _timers(self) -> None:
        now = time.monotonic()
        if self._notifier.watchdog_seconds and now >= self._next_sign:
            self._next_sign = now + self._notifier.watchdog_seconds
            self._notifier.alive()
        if not self._is_ready and not self._stop_signals:
            self._check_ready(now)
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self._judge_life()
        if now >= self._next_sweep:
            self._next_sweep = now + self._config.node.heartbeat_seconds
            self._groups.look()
            self._sweep()
        self._look_at_health()

    def _judge_life(self) -> None:
        """End processes that hang, though their nodes hold their leases. Those that do not allow it are not pinged."""
        wanted = {}
        with suppress(StorageError, OSError):  # the sweep tells of it
            for name, limit in self._supervisor.pinged().items():
                entry = self._registry.live(name)
                if entry is not None and may_look(entry, self._node.name):
                    wanted[name] = limit
        self._supervisor.judge(self._pulse.look(wanted))

    def _look_at_health(self) -> None:
        """Processes that do not serve, bridges that wait; and what the service manager is told, where it changed."""
        self._health.set("processes", self._supervisor.troubles())
        self._health.set("bridges", [waiting_bridge(*one) for one in self._bridging.troubles()])
        unread = self._metrics.look([process.status() for process in self._supervisor.processes])
        self._health.set("metrics", [Trouble(unread, "see [metrics]", is_elsewhere=True)] if unread else [])
        line = self._status_text()
        if self._is_ready and not self._stop_signals and line != self._status_line:
            self._status_line = line
            self._notifier.status(line)

    def _status_text(self) -> str:
        """One line for the service manager."""
        troubles = "; ".join(trouble.what for trouble in self._health.troubles())
        return troubles.replace("\n", "; ") or "all processes are up"

    def _trouble(self, about: str, event: str, what: str, cure: str) -> None:
        """Note what is wrong, and log it once; an empty ``what`` is the end of it."""
        if self._health.set(about, [Trouble(what, cure)] if what else []):
            if what:
                self._log.error(event, reason=what)
            else:
                self._log.info("recovered", what=event)

    def _check_ready(self, now: float) -> None:
        with suppress(StorageError):  # what was seen last holds; the sweep tells of it
            self._supervisor.registered({entry.name for entry in self._node.nodes()})
        if not self._supervisor.is_ready and now < self._patience_ends:
            return
        self._is_ready = True
        missing = self._supervisor.unready()
        (self._log.warning if missing else self._log.info)("ready", not_up=missing)
        self._look_at_health()
        self._status_line = self._status_text()
        self._notifier.ready(self._status_line)
        if self._ready_fd is not None:
            self._tell_starter(self._ready_fd)

    def _tell_starter(self, fd: int) -> None:
        """Write to the descriptor of ``--ready-fd``; who does not read is neither waited for nor a reason to end."""
        try:
            if not select.select([], [fd], [], 0)[1]:
                raise BlockingIOError(errno.EAGAIN, "nobody reads what is in the pipe")
            os.write(fd, b"READY\n")
        except BrokenPipeError:
            self._log.warning("readiness_not_told", reason="nobody reads the descriptor of --ready-fd any more")
        except (OSError, ValueError) as error:
            self._log.warning("readiness_not_told", reason=f"--ready-fd: {error}")
        with suppress(OSError):
            os.close(fd)

    def _sweep(self) -> None:
        """Remove entries of dead nodes; notice that our own node is lost."""
        try:
            self._keys.look()  # what is wrong with the file, the node says
            self._resealing.look()
            self._rotation.look(time.monotonic())
            if self._node.closed:
                raise LeaseLostError(f"node {self._node.name!r} is lost: another process has it, or its lease ran out")
            self._supervisor.seen(
                {entry.name: entry.status for entry in self._registry.live_entries(sure=True)},
                MISSED_HEARTBEATS * self._config.node.heartbeat_seconds,
            )
            self._remove_dead()
            self._look_at_root()
            if self._recording is not None:
                self._look_after(self._recording)
            if self._hosting is not None:
                self._look_after_topics(self._hosting)
            if self._gateways.to_hosts is not None:
                self._look_after_hosts(self._gateways.to_hosts)
        except (OSError, StorageError) as error:
            self._log.warning("sweep_failed", reason=str(error))
        except SpeedError as error:
            self._log.error("node_lost", code=error.code, reason=str(error))
            self._fail("node lost")
        if self._bridging.is_lost and not self._failed:
            self._log.error(
                "node_lost", reason=f"node {self._bridging.node_name!r} is lost: another process has its name"
            )
            self._fail("node lost")
        gateway = self._gateways.to_clients
        if gateway is not None and gateway.has_failed and not self._failed:
            self._log.error("gateway_ended", reason="an unexpected error, which is logged above")
            self._fail("gateway ended")
        if self._console is not None and self._console.has_failed and not self._failed:
            self._log.error("console_ended", reason="an unexpected error, which is logged above")
            self._fail("console ended")

    def _remove_dead(self) -> None:
        """Remove entries of dead nodes, and note whose they were. Raises StorageError, OSError."""
        for entry in self._registry.remove_stale():
            self._log.info("stale_entry_removed", node=entry.name, pid=entry.pid, host=entry.host)
            if self._supervisor.named(entry.name) is None:  # of its own processes it knows more
                self._died.add(entry.name, entry.pid, time.monotonic())

    def _fail(self, why: str) -> None:
        """End with an error, so that whoever supervises speedd starts it again."""
        self._failed = True
        if not self._stop_signals:
            self._stop(why)

    def _look_at_root(self) -> None:
        """Whether the root has room: without it nothing is sent, and no lease is renewed that needs more."""
        free = os.statvfs(self._node.root)
        is_full = free.f_bavail * free.f_frsize < LEAST_ROOM_BYTES or (free.f_files and not free.f_favail)
        what = f"the root {self._node.root} is full" if is_full else ""
        self._trouble(
            "root", "root_full", what, "make room on its filesystem: see `speed root doctor`, `speed root gc`"
        )

    def _look_after(self, recording: Recording) -> None:
        self._trouble(
            "journal", "journal_not_written", recording.retain(), "make room where it lies; it is tried again"
        )
        lost = recording.lost()
        if lost is not None:
            raise LeaseLostError(f"node {lost!r}, which records for the journal, is lost: another process has its name")

    def _look_after_topics(self, hosting: Hosting) -> None:
        self._trouble("topics", "topics_not_written", hosting.retain(), "make room where they lie; it is tried again")
        if hosting.is_lost:
            raise LeaseLostError(f"node {hosting.name!r}, which hosts topics, is lost: another process has its name")

    def _look_after_hosts(self, joining: Joining) -> None:
        joining.look()
        if joining.is_lost:
            raise LeaseLostError(f"node {GATEWAY!r}, which reaches other hosts, is lost: another process has its name")

    def _reload(self) -> None:
        """Take over grants and bridges from the configuration file; say what needs a restart instead.

        Whatever is wrong with the file: the old grants stay in force, and services and bridges go on.
        """
        self._notifier.reloading()
        why = ""
        try:
            self._take_over(sound_config(self._config.path))
        except (SpeedError, OSError) as error:
            why = str(error)
            self._log.error("reload_refused", reason=why)
        except Exception as error:  # a defect of ours is no reason to end what runs
            why = f"{type(error).__name__}: {error}"
            self._log.error("reload_refused", reason=why, exc_info=error)
        refused = Trouble(f"the reload was refused: {why}", "mend the file, see `speedd check`, and reload again")
        self._health.set("reload", [refused] if why else [])
        self._status_line = self._status_text()
        self._notifier.ready(self._status_line)  # it ends the reload, whatever came of it

    def _take_over(self, new: Config) -> None:
        old = self._config
        takes_bridges = self._bridging.can_change(new.bridges)
        taken = taken_over(old, new, with_bridges=takes_bridges)
        try:
            self._become(old, taken)
        except BaseException:
            with suppress(SpeedError, OSError):
                self._become(taken, old)
            raise
        if not self._stop_signals:
            self._supervisor.take_over(new.processes)
        self._config = taken
        waiting = sorted(differences(taken, new))
        self._health.set("restart", waiting_for_restart(waiting))
        if waiting:
            self._log.warning("reload_needs_restart", settings=waiting)
        self._log.info("reloaded")

    def _become(self, old: Config, new: Config) -> None:
        """Have everything but the processes run as ``new`` says. Raises SpeedError and OSError."""
        self._publish_grants(old, new)
        self._sink.change(new.log)
        if self._recording is not None and new.journal is not None:
            self._recording.change(new.journal)
        if self._hosting is not None and new.topics is not None:
            self._hosting.change(new.topics, new.each_topic)
        self._gateways.change(new)
        self._metrics.change(new.metrics)
        if new.bridges != old.bridges:
            self._log.info("bridges_changed", **self._bridging.change(new.bridges))

    def _publish_grants(self, old: Config, new: Config) -> None:
        change_grants(self._node, old.node.allow, new.node.allow)
        if self._recording is not None and old.journal is not None and new.journal is not None:
            self._recording.change_grants(old.journal.allow, new.journal.allow)
        if self._hosting is not None and new.topics is not None:
            self._hosting.change_grants(new.topics, new.each_topic)
        if new.hosts is not None:
            self._gateways.change_grants(new.hosts, new.host_grants)

    # --- what is asked through the socket ---

    def _answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Do what a request asks for; an error is an answer."""
        try:
            return self._requests[str(request.get("do"))](request)
        except KeyError:
            return {"error": "speedd does not know this request: its version is another one"}
        except SpeedError as error:
            return {"error": str(error)}

    def _notices(self, now: float) -> list[Trouble]:
        """What is worth a word, and may well be meant."""
        unread = [] if self._hosting is None else self._hosting.unread()
        topicless = [topicless_bridge(*one) for one in self._bridging.without_topic()]
        return [*self._died.notices(now), *unread, *topicless]

    def _status(self, _request: dict[str, Any]) -> dict[str, Any]:
        with suppress(StorageError, OSError):  # the sweep tells of it
            self._remove_dead()  # who asks hears of those that died since the last sweep
        self._look_at_health()
        now = time.monotonic()
        return {
            "node": self._node.name,
            "pid": os.getpid(),
            "config": str(self._config.path),
            "root": self._node.root,
            "ready": self._is_ready and self._health.serves,
            "stopping": bool(self._stop_signals),
            "processes": [process.status() for process in self._supervisor.processes],
            "troubles": [one.described() for one in self._health.troubles()],
            "notices": [one.described() for one in self._notices(now)],
        }

    def _reload_now(self, _request: dict[str, Any]) -> dict[str, Any]:
        self._reload()
        refused = self._health.troubles("reload")
        return {"error": refused[0].what} if refused else {}

    def _compare(self, _request: dict[str, Any]) -> dict[str, Any]:
        """What of the file, as it is now, a reload would not take over."""
        new = sound_config(self._config.path)
        taken = taken_over(self._config, new, with_bridges=self._bridging.can_change(new.bridges))
        return {"config": str(self._config.path), "waiting": sorted(differences(taken, new))}

    def _stop_now(self, _request: dict[str, Any]) -> None:
        self._stop("speedd stop")

    def _restart_named(self, request: dict[str, Any]) -> dict[str, Any]:
        self._check_going_on()
        return {"starts": self._supervisor.restart(checked_name(request))}

    def _scale_named(self, request: dict[str, Any]) -> dict[str, Any]:
        self._check_going_on()
        processes = self._supervisor.scale(name := checked_name(request), count := checked_count(request))
        self._log.info("scaled", process=name, count=count)
        return {"processes": processes}

    def _console_address(self, _request: dict[str, Any]) -> dict[str, Any]:
        if self._console is None:
            raise ConfigurationError("this speedd has no console: add [console] to its configuration, and restart it")
        return {"address": self._console.address()}

    def _check_going_on(self) -> None:
        if self._stop_signals:
            raise ConfigurationError("speedd is ending")


def _log_file(settings: LogSettings) -> LogFile:
    try:
        return LogFile(settings)
    except OSError as error:
        raise ConfigurationError(
            f"the log {settings.file} cannot be opened: {error.strerror}; it must be a regular file of this user, "
            "no link, and its directory be there or to be made"
        ) from error


def run(config: Config, ready_fd: int | None = None) -> int:
    """Run speedd. Returns the exit status; raises SpeedError when it cannot start."""
    sink = _log_file(config.log)
    log = open_log(sink, node=config.node.name)
    logging.getLogger().addHandler(Forwarded(log))
    sys.path[:0] = [str(path) for path in config.python_path]
    services = [(service, load_service(service.entry)) for service in config.services]
    log.info("starting", config=str(config.path), pid=os.getpid())
    node = own_node(config, key_path(config))
    recording = hosting = gateways = bridging = metrics = console = lock = None
    health = Health()
    try:
        lock = _only_one(node.root)
        if config.journal is not None:
            recording = Recording(config, config.journal, node, key_path(config))
            log.info("journal", directory=recording.directory)
        if config.topics is not None:
            hosting = Hosting(config, config.topics, node, key_path(config))
            for topic, why in hosting.broken.items():
                log.error("topic_broken", topic=topic, reason=why)
            log.info("topics", place=hosting.place, host=hosting.name)
        gateways = Gateways(node, key_path(config), hosting, health, log)
        gateways.change(config)
        for service, handler in services:
            logged = recording.logged(service.name, handler) if recording is not None else handler
            node.register(service.name, logged, allow=service.allow)
        if recording is not None:
            recording.start()
        bridging = _bridging(config, node, hosting, recording)
        if config.bridges:
            bridging.change(config.bridges)
            log.info("bridges", names=[bridge.name for bridge in config.bridges])
        gateways.also(bridging.metrics)
        metrics = Exposing(node, key_path(config), DaemonParts(health, bridging, gateways, hosting, recording), log)
        metrics.change(config.metrics)
        node.allow(*config.node.allow)
        with _signal_pipe() as signals:  # whoever sees the node may end it
            node.ready()
            if config.console is not None:
                parts = SpeeddParts(node, key_path(config), recording, hosting, bridging, health, gateways.figures)
                console = opened_console(config.console, parts)
                listens = {"address": config.console.address, "port": console.port}
                log.info("console", **listens, tls=bool(config.console.certificate))
            opened = (recording, hosting, gateways, bridging, metrics, console)
            return Daemon(config, node, *opened, sink, log, ready_fd, health).run(signals)
    finally:
        _end(console, metrics, gateways, bridging)
        if not node.closed:  # a lost node has ended already
            node.close()
        _end(recording, hosting)
        if lock is not None:
            lock.release()


def _end(*parts: Console | Exposing | Gateways | Bridging | Recording | Hosting | None) -> None:
    """Close those that were opened."""
    for part in parts:
        if part is not None:
            part.close()


def _bridging(config: Config, node: Node, hosting: Hosting | None, recording: Recording | None) -> Bridging:
    """What ``[[bridge]]`` asks for; nothing is carried yet."""
    events = None
    if recording is not None and config.journal is not None:
        events = Events(recording.directory, config.journal.durability == "disk")
    key = key_path(config)

    def make_node(name: str) -> Node:
        lease, heartbeat = config.node.lease_seconds, config.node.heartbeat_seconds
        return Node(name, root=node.root, key=key, workers=1, lease_seconds=lease, heartbeat_seconds=heartbeat)

    return Bridging(node, key, make_node, hosting, events)


def _only_one(root: str) -> BaseFileLock:
    """What one speedd of a root holds. Raises RootError while another one has it."""
    try:
        lock = try_lock(names.daemon_lock(root))
    except OSError as error:
        raise RootError(f"the lock of speedd in {root} cannot be taken: {error.strerror}: make room there") from None
    if lock is None:
        raise RootError(f"another speedd serves the root {root}: stop it, or name another root")
    return lock
