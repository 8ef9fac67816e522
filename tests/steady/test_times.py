"""What took most is told by seconds of the processor, those of processes that a test started among them."""

from __future__ import annotations

import subprocess
import sys

from tests.steady.times import LEAST_SECONDS, Took, by_file, spent, table

WORK = "import time\nwhile time.process_time() < 0.2: pass\n"


def test_what_a_process_took_counts_while_it_goes_on_and_when_it_has_ended() -> None:
    before = spent()
    process = subprocess.Popen(
        [sys.executable, "-c", f"{WORK}print('done', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"done\n"
    going_on = spent()
    process.communicate(b"\n")
    assert 0.1 <= going_on - before <= spent() - before  # it is counted in ticks


def test_what_a_process_took_counts_though_its_threads_end_while_it_is_asked() -> None:
    """Else all that a long process has taken would be told of the test that asks next."""
    begun = f"{WORK}print('done', flush=True)\nimport threading\n"
    churn = "while True: threading.Thread(target=str, name='short').start()\n"
    with subprocess.Popen([sys.executable, "-c", begun + churn], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        seen = [spent(process.pid) for _ in range(2000)]
        process.kill()
    assert seen == sorted(seen)


def test_a_process_that_is_not_there_took_nothing() -> None:
    assert spent(1 << 30) == 0.0


def test_the_table_begins_with_what_took_most_and_ends_with_all() -> None:
    tests = [Took("waits", 30, 0.1), Took("works", 3, 2.5), Took("short", LEAST_SECONDS / 2, 0)]
    assert [line.split() for line in table(tests)] == [
        ["3.0", "s", "2.5", "s", "works"],
        ["30.0", "s", "0.1", "s", "waits"],
        ["33.2", "s", "2.6", "s", "all"],
    ]
    assert len(table(tests, shown=1)) == 2


def test_the_tests_of_a_file_add_up() -> None:
    assert by_file([Took("a.py::x", 1, 2), Took("b.py::x", 1, 1), Took("a.py::y", 3, 4)]) == [
        Took("a.py", 4, 6),
        Took("b.py", 1, 1),
    ]
