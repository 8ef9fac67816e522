"""``docs/howto/embedding.md`` as it stands: each block is a file, run under the real server that the page names."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.testing import temporary_root

pytestmark = [pytest.mark.system, pytest.mark.slow]
SOURCES = Path(__file__).resolve().parents[2]
PAGE = SOURCES / "docs" / "howto" / "embedding.md"
PATIENCE = 60.0
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
Start = Callable[..., "subprocess.Popen[str]"]


def blocks() -> dict[str, str]:
    """The code of the page by the name in its first line."""
    found = re.findall(r"^```python\n# ([^\n]+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return dict(found)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory with the files of the page, and a root that the environment names."""
    for name, code in blocks().items():
        if name.endswith(".py"):
            (tmp_path / name).write_text(code)
    (tmp_path / "conftest.py").rename(tmp_path / "pytest_fixtures.py")
    with temporary_root():
        yield tmp_path


@pytest.fixture
def billing(place: Path) -> Iterator[speed.Node]:
    """The service that the page's programs call."""
    names: dict[str, Any] = {}
    exec((place / "billing.py").read_text(), names)
    node: speed.Node = names["billing"]
    yield node
    node.close(drain_seconds=1)


@pytest.fixture
def start(place: Path) -> Iterator[Start]:
    """Starts a program in the page's directory, and stops it in the end as its supervisor would."""
    started: list[subprocess.Popen[str]] = []

    def begin(*command: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(place), str(SOURCES)])}
        log = (place / "log").open("w")
        program = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=place,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        log.close()
        started.append(program)
        return program

    yield begin
    for program in started:
        stop(program)


def stop(program: subprocess.Popen[str]) -> None:
    """End it with SIGTERM; what is left of its group is killed."""
    program.terminate()
    try:
        program.wait(PATIENCE)
    finally:
        try:
            os.killpg(program.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def until(met: Callable[[], Any], log: Path) -> Any:
    """What ``met`` returns, once it is true."""
    deadline = time.monotonic() + PATIENCE
    while not (value := met()):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return value


def get(url: str, **headers: str) -> str | None:
    """The body of a page; None while nobody listens yet."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError:
        raise
    except OSError:
        return None


def instances(node: speed.Node, family: str) -> list[str]:
    return [entry.name for entry in node.nodes() if entry.name.startswith(f"{family}.")]


def test_every_block_of_the_page_is_run_by_a_test() -> None:
    tested = {"billing.py", "web.py", "shop.py", "gunicorn.conf.py", "tasks.py", "threads.py"}
    tested |= {"cell 1", "cell 2", "cell 3", "conftest.py", "test_billing.py", "test_orders.py"}
    assert set(blocks()) == tested
    assert len(re.findall("^```python", PAGE.read_text(), re.MULTILINE)) == len(tested)


def test_each_worker_of_uvicorn_has_an_instance_of_its_own(place: Path, billing: speed.Node, start: Start) -> None:
    port = free_port()
    web = start("uvicorn", "web:app", "--workers", "2", "--port", str(port))
    url = f"http://127.0.0.1:{port}/tax/8"
    assert until(lambda: get(url), place / "log") == "2.0"
    until(lambda: len(instances(billing, "web")) == 2, place / "log")
    stop(web)
    until(lambda: not instances(billing, "web"), place / "log")


def test_a_call_for_an_http_request_belongs_to_its_trace(place: Path, start: Start) -> None:
    traces: list[str | None] = []

    def tax(amount: float) -> float:
        traces.append(speed.current_trace())
        return amount

    with speed.Node("billing", allow=["web.*"]) as billing:
        billing.register("tax", tax)
        port = free_port()
        start("uvicorn", "web:app", "--port", str(port))
        url = f"http://127.0.0.1:{port}/tax/8"
        until(lambda: get(url), place / "log")
        get(url, traceparent=TRACE)
        get(url, traceparent="nonsense")
    assert traces[-3:] == [None, TRACE, None]


def test_three_preloaded_workers_of_gunicorn_do_not_fight_for_one_name(
    place: Path, billing: speed.Node, start: Start
) -> None:
    port = free_port()
    shop = start("gunicorn", "shop:application", "--bind", f"127.0.0.1:{port}")
    until(lambda: len(instances(billing, "shop")) == 3, place / "log")
    name, answer = until(lambda: get(f"http://127.0.0.1:{port}/?amount=8"), place / "log").split()
    assert name in instances(billing, "shop")
    assert answer == "2.0"
    stop(shop)
    until(lambda: not instances(billing, "shop"), place / "log")


def test_a_node_made_before_the_fork_says_so_in_the_worker(place: Path, billing: speed.Node, start: Start) -> None:
    (place / "shop.py").write_text("import speed\nnode = speed.Node('shop.early')\n" + blocks()["shop.py"])
    (place / "gunicorn.conf.py").write_text("preload_app = True\n")
    port = free_port()
    start("gunicorn", "shop:application", "--bind", f"127.0.0.1:{port}")
    with pytest.raises(urllib.error.HTTPError, match="500"):
        until(lambda: get(f"http://127.0.0.1:{port}/?amount=8"), place / "log")
    assert "ForkedNodeError" in (place / "log").read_text()


def test_each_process_of_celery_has_an_instance_of_its_own(place: Path, billing: speed.Node, start: Start) -> None:
    for directory in ("queue", "results"):
        (place / directory).mkdir()
    (place / "celeryconfig.py").write_text(
        f"""
broker_url = "filesystem://"
broker_transport_options = {{"data_folder_in": {str(place / "queue")!r}, "data_folder_out": {str(place / "queue")!r}}}
result_backend = {f"file://{place / 'results'}"!r}
"""
    )
    tasks = start("celery", "-A", "tasks", "worker", "--concurrency", "2", "--without-gossip", "--without-mingle")
    until(lambda: len(instances(billing, "tasks")) == 2, place / "log")
    ask = "import tasks; print([tasks.tax.delay(n).get(timeout=50) for n in (4, 8)])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(place), str(SOURCES)])}
    asked = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert asked.stdout == "[1.0, 2.0]\n"
    stop(tasks)
    until(lambda: not instances(billing, "tasks"), place / "log")


def test_the_cells_of_a_notebook_run_in_a_kernel(place: Path, billing: speed.Node, monkeypatch: Any) -> None:
    import nbclient
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(SOURCES))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    code = blocks()
    again = "import time\nwhile len(node.nodes()) > 2: time.sleep(0.05)  # billing and the instance of now"
    texts = [code["cell 1"], code["cell 2"], code["cell 3"], code["cell 1"], code["cell 1"], again, code["cell 2"]]
    cells = [nbformat.v4.new_code_cell(text) for text in texts]
    cells.append(nbformat.v4.new_code_cell("node.name.split('.')[0], node.close()"))
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=PATIENCE, kernel_name="python3").execute()
    assert not [output for cell in notebook.cells for output in cell.outputs if output["output_type"] == "stream"]
    shown = [cell.outputs[0]["data"]["text/plain"] for cell in notebook.cells if cell.outputs]
    assert shown == ["2.0", "2.5", "2.0", "('notebook', None)"]


def test_threads_of_a_service_stay_in_its_trace(place: Path) -> None:
    run = [sys.executable, str(place / "threads.py")]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    said = subprocess.run(run, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    assert said == f"{[TRACE, TRACE]}\n"


def test_the_fixtures_of_the_page_test_a_program(place: Path) -> None:
    (place / "pytest_fixtures.py").rename(place / "conftest.py")
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_billing.py", "test_orders.py"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    ended = subprocess.run(
        run, cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert "2 passed" in ended.stdout, ended.stdout
