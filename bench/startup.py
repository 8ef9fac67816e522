"""What SPEED costs before and between calls: import, node start, an idle node, ``speed nodes``."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from contenders.processes import cpu_ns, environment, resident_mb

HERE = Path(__file__).resolve().parent

NODE_PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
from contenders.speed_echo import open_node
from pathlib import Path
import speed
speed.Node  # importing is the figure of import_ms
begin = time.perf_counter()
node = open_node(Path(sys.argv[2]), sys.argv[3])
print((time.perf_counter() - begin) * 1e3, flush=True)
sys.stdin.read()
node.close()
"""

CLI_PROGRAM = "import sys; from speed.cli import main; sys.exit(main())"
"""What the console script does, for a tree that is not installed."""


def run_ms(command: list[str], more: dict[str, str] | None = None) -> float:
    """Run `command` to its end; milliseconds. Raises with its error text if it fails."""
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env={**environment(), **(more or {})}, check=False)
    elapsed = (time.perf_counter() - begin) * 1e3
    if done.returncode:
        raise RuntimeError(f"{command[0]} {' '.join(command[1:3])}: {done.stderr.strip()[-500:]}")
    return elapsed


def import_ms(rounds: int) -> float:
    """``import speed; speed.Node`` over a bare interpreter: median of the differences of pairs."""
    bare = [sys.executable, "-c", "pass"]
    # The name is touched: a lazily loaded package must not look quicker than its first use.
    importing = [sys.executable, "-c", "import speed; speed.Node"]
    run_ms(bare), run_ms(importing)  # byte code and page cache
    differences = []
    for _ in range(rounds):
        base = run_ms(bare)
        differences.append(run_ms(importing) - base)
    return statistics.median(differences)


def start_node(work: Path, name: str) -> tuple[subprocess.Popen[str], float]:
    """Start a process with one node; returns it and the milliseconds its constructor took."""
    process = subprocess.Popen(
        [sys.executable, "-c", NODE_PROGRAM, str(HERE), str(work), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        raise RuntimeError(f"node {name} did not start (exit status {process.returncode})")
    return process, float(line)


def end_node(process: subprocess.Popen[str]) -> None:
    """Close its input, which makes it close its node and end."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def node_start_ms(work: Path, rounds: int) -> float:
    """Median of the constructor's time; each round a new process, so nothing is warm but the disk cache."""
    times = []
    end_node(start_node(work, "start.warm")[0])  # byte code
    for number in range(rounds):
        process, elapsed = start_node(work, f"start.{number}")
        end_node(process)
        times.append(elapsed)
    return statistics.median(times)


def idle_figures(work: Path, seconds: float) -> dict[str, float]:
    """CPU per cent of one core and resident MB (10^6 bytes) of an idle node beside another idle one."""
    idle, _ = start_node(work, "idle")
    other, _ = start_node(work, "other")
    try:
        time.sleep(1.0)  # what the start left over does not count as idle
        before, begin = cpu_ns(idle.pid), time.perf_counter_ns()
        time.sleep(seconds)
        share = 100.0 * (cpu_ns(idle.pid) - before) / (time.perf_counter_ns() - begin)
        return {"idle_cpu_percent": share, "idle_rss_mb": resident_mb(idle.pid)}
    finally:
        end_node(other)
        end_node(idle)


def nodes_command_ms(work: Path, rounds: int) -> float:
    """``speed nodes`` with two nodes present, the whole process: median."""
    script = Path(sys.executable).with_name("speed")
    command = [str(script)] if script.exists() else [sys.executable, "-c", CLI_PROGRAM]
    places = {"SPEED_ROOT": str(work / "root"), "SPEED_KEY": str(work / "speed.key")}
    processes = [start_node(work, name)[0] for name in ("one", "two")]
    try:
        run_ms([*command, "nodes"], places)
        return statistics.median(run_ms([*command, "nodes"], places) for _ in range(rounds))
    finally:
        for process in processes:
            end_node(process)


def figures(work: Path, *, quick: bool) -> dict[str, float | str]:
    """All start-up figures; one that cannot be taken is its error text, so the others still count."""
    rounds, seconds = (5, 3.0) if quick else (15, 10.0)
    found: dict[str, float | str] = {}
    measures = {
        "import_ms": lambda: import_ms(rounds),
        "node_start_ms": lambda: node_start_ms(work, rounds),
        "idle": lambda: idle_figures(work, seconds),
        "nodes_command_ms": lambda: nodes_command_ms(work, rounds),
    }
    for name, measure in measures.items():
        try:
            value = measure()
        except Exception as error:
            found[name] = f"failed: {error}"
            continue
        found.update(value if isinstance(value, dict) else {name: value})
    return found


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(figures(Path(directory), quick="--quick" in sys.argv), indent=2))
