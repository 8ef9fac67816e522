"""``scripts/torture``: tries to break what ``registry_spec/reliability.md`` promises.

Exit status: 0 when every promise was kept (with ``--mutate``: when every broken one was noticed), 1 otherwise.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import multiprocessing
import os
import pkgutil
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.steady.ledger import Ledger
from tests.torture import results, scenarios
from tests.torture.results import Result
from tests.torture.scenario import Report, Scenario

WITH_EPHEMERAL = ("races", "reclaim", "power", "replay", "hostile", "pids")
"""The scenarios that --ephemeral changes."""


def all_scenarios() -> dict[str, Scenario]:
    """By name, in order: each module of ``scenarios/`` holds one."""
    modules = (module.name for module in pkgutil.iter_modules(scenarios.__path__))
    found = [importlib.import_module(f"{scenarios.__name__}.{name}") for name in modules]
    return {one.name: one for one in sorted((module.SCENARIO for module in found), key=lambda each: each.name)}


def play(
    scenario: Scenario, seed: int, count: int, *, mutated: bool = False, ephemeral: bool = False, jobs: int = 1
) -> tuple[Report, float]:
    """Run it, in ``jobs`` processes side by side; what it found, and how many seconds it took."""
    began = time.monotonic()
    part = partial(_part, scenario, mutated=mutated, ephemeral=ephemeral)
    report = part(seed, count) if jobs == 1 else _side_by_side(part, seed, count, jobs)
    return report, time.monotonic() - began


def _part(scenario: Scenario, seed: int, count: int, *, mutated: bool, ephemeral: bool) -> Report:
    report = Report(scenario.name, mutated, ephemeral, round_seed=seed)
    report.attempt(lambda: scenario.run(seed, count, report))
    return report


def _side_by_side(part: Callable[[int, int], Report], seed: int, count: int, jobs: int) -> Report:
    """Each process has its own agents and roots, and seeds that follow those of the one before."""
    firsts = [seed + count * job // jobs for job in range(jobs + 1)]
    parts = [(first, following - first) for first, following in itertools.pairwise(firsts) if following > first]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_watch_parent) as pool:
        told = [pool.submit(part, first, size) for first, size in parts]
        whole = told[0].result()
        for each in told[1:]:
            whole.join(each.result())
    return whole


def _watch_parent() -> None:
    """End with the program that shares its rounds, also if that is killed."""
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def notices_mutation(scenario: Scenario, seed: int, count: int = 0) -> bool:
    """Whether it fails when its promise is broken on purpose."""
    report, _ = play(scenario, seed, count or scenario.tiny, mutated=True)
    return report.is_caught


def main(arguments: Sequence[str] | None = None) -> int:
    known = all_scenarios()
    options = _options(arguments)
    if options.list or not options.names:
        _list(known)
        return 0
    everything = WITH_EPHEMERAL if options.ephemeral else known
    names = list(everything) if "all" in options.names else options.names
    unknown = [name for name in names if name not in known]
    if options.ephemeral and not set(names) <= set(everything):
        print(f"--ephemeral is for {', '.join(WITH_EPHEMERAL)}", file=sys.stderr)
        return 2
    if unknown:
        print(f"no scenario is called {', '.join(unknown)}; see scripts/torture --list", file=sys.stderr)
        return 2
    chosen = [known[name] for name in names]
    if options.mutate:
        return _mutate(chosen, options)
    found = _side_by_side_each(chosen, options) if options.smoke else [_played(each, options) for each in chosen]
    if options.json:
        results.write_json(options.json, found)
    if options.write:
        results.update_page(found, known)
    return _verdict(found)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/torture", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios, or `all`")
    parser.add_argument("--list", action="store_true", help="the scenarios and what they promise")
    parser.add_argument("--full", action="store_true", help="the counts of the published table; hours")
    parser.add_argument("--quick", action="store_true", help="small counts, minutes in all (the default)")
    parser.add_argument("--smoke", action="store_true", help="no more than notice a broken promise")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--count", type=int, default=0, help="rounds of each scenario")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="share the rounds among N processes")
    parser.add_argument("--json", metavar="FILE", help="write the results there as well")
    parser.add_argument("--write", action="store_true", help="update the table of docs/explanation/reliability.md")
    parser.add_argument("--twice", action="store_true", help="play what failed once more; kept then, it is unsteady")
    parser.add_argument(
        "--ephemeral", action="store_true", help=f"ephemeral nodes among them: {', '.join(WITH_EPHEMERAL)}"
    )
    parser.add_argument("--mutate", action="store_true", help="break each promise on purpose: it must be noticed")
    return parser.parse_args(arguments)


def _list(known: dict[str, Scenario]) -> None:
    for scenario in known.values():
        print(f"{scenario.name:12} {scenario.promise}")
        print(f"{'':12} {scenario.quick:,} quick, {scenario.full:,} full {scenario.unit}; broken: {scenario.mutation}")


def _twice(scenario: Scenario, options: argparse.Namespace) -> Result:
    """A failure is played once more from the same seed. Kept then, it is told as unsteady, and what counts is that."""
    first, ledger = _result(scenario, options), Ledger()
    if not first.failures or ledger.room() <= 0:
        return first
    print(f"{scenario.name}: once more", flush=True)
    second = _result(scenario, options)
    if not second.failures:
        ledger.add(f"torture {scenario.name}: {first.failures[0].partition('; repeat: ')[0]}", first.command)
    return second


def _result(scenario: Scenario, options: argparse.Namespace) -> Result:
    count = options.count or _usual_count(scenario, options)
    print(f"{scenario.name}: {scenario.promise}\n  seed {options.seed}, {count:,} {scenario.unit}", flush=True)
    report, seconds = play(scenario, options.seed, count, ephemeral=options.ephemeral, jobs=options.jobs)
    verdict = "BROKEN" if report.failures else "kept"
    print(f"  {verdict}: {report.told()} in {seconds:.1f} s", flush=True)
    usual = " --full" if options.full else " --smoke" if options.smoke else ""
    size = f" --count {options.count}" if options.count else usual
    size += " --ephemeral" if options.ephemeral else ""
    size += f" --jobs {options.jobs}" if options.jobs > 1 else ""
    return Result(
        scenario=scenario.name,
        command=f"scripts/torture {scenario.name}{size} --seed {options.seed}",
        seed=options.seed,
        count=count,
        unit=scenario.unit,
        seconds=round(seconds, 1),
        figures={**report.figures, **{figure: round(value, 3) for figure, value in report.worst.items()}},
        failures=report.failures,
        verdict=verdict,
        machine=results.machine(),
        date=results.today(),
    )


def _played(scenario: Scenario, options: argparse.Namespace) -> Result:
    return _twice(scenario, options) if options.twice else _result(scenario, options)


def _side_by_side_each(chosen: Sequence[Scenario], options: argparse.Namespace) -> list[Result]:
    """Few rounds cannot be shared among processes, but scenarios can: most of them wait."""
    alone = argparse.Namespace(**{**vars(options), "jobs": 1})
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=spawn, initializer=_watch_parent) as pool:
        return list(pool.map(partial(_played, options=alone), chosen))


def _usual_count(scenario: Scenario, options: argparse.Namespace) -> int:
    if options.full:
        return scenario.full
    return min(scenario.tiny, scenario.quick) if options.smoke else scenario.quick


def _mutate(chosen: Sequence[Scenario], options: argparse.Namespace) -> int:
    missed = []
    for scenario in chosen:
        print(f"{scenario.name}, broken on purpose: {scenario.mutation}", flush=True)
        if not notices_mutation(scenario, options.seed, options.count):
            missed.append(scenario.name)
    print(f"torture: {len(chosen) - len(missed)} of {len(chosen)} broken promises noticed; seed {options.seed}")
    for name in missed:
        print(f"NOT NOTICED {name}")
    return 1 if missed else 0


def _verdict(found: Sequence[Result]) -> int:
    broken = [result for result in found if result.failures]
    seconds = sum(result.seconds for result in found)
    print(f"torture: {len(found) - len(broken)} of {len(found)} promises kept in {seconds:.0f} s")
    for result in broken:
        for failure in result.failures:
            print(f"BROKEN {result.scenario}: {failure}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
