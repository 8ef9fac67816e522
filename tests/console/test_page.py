"""The pages of the console in a real browser."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

import pytest

import speed
from speed.console.server import PAGE
from tests.console.consoles import HOSTILE, Served, misfits
from tests.system.browser import Browser, Page
from tests.system.daemon.speedds import PATIENCE

VIEWS = {
    "overview": "Overview",
    "nodes/billing": "billing",
    "services": "Services",
    "services/billing/tax": "billing tax",
    "topics": "Topics",
    "topics/orders": "orders",
    "bridges": "Bridges and gateway",
    "journal": "Journal",
    "try": "Try",
    "try/billing": "billing",
    "try/billing/tax": "tax",
    "doctor": "Doctor",
}
TITLE = "document.querySelector('h1')?.firstChild.textContent"
NODES = "[...document.querySelectorAll('main tbody th a')].map((one) => one.textContent)"
MAX_PAGE_BYTES = 200_000
MAX_PAINT_MS = 500


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def go(page: Page, view: str) -> None:
    """Show a view, and wait until it is there."""
    page.run(f"location.hash = '#/{view}'")
    page.shows(TITLE, VIEWS[view])
    page.shows("document.querySelector('#pulse').textContent", "Live")


def watched(page: Page) -> None:
    """Note what the browser refuses, and errors of the page."""
    page.run(
        "window.troubles = [];"
        "document.addEventListener('securitypolicyviolation', (one) => troubles.push(one.violatedDirective));"
        "addEventListener('error', (one) => troubles.push(one.message));"
        "addEventListener('unhandledrejection', (one) => troubles.push(String(one.reason)))"
    )


def test_the_overview_has_trouble_first_with_its_cure_and_then_nodes(page: Page) -> None:
    page.shows("document.querySelectorAll('section')[0]?.getAttribute('aria-label')", "What is wrong")
    cures = "[...document.querySelectorAll('.findings .cure')].map((one) => one.textContent)"
    page.shows(f"{cures}.some((one) => one.startsWith('→ start its consumer'))", True)
    page.shows(f"{NODES}.includes('billing')", True)


def test_the_overview_shows_who_writes_to_whom(page: Page) -> None:
    table = "document.querySelector('section[aria-label=\"Who writes to whom\"] tbody tr')"
    page.shows(f"[...{table}?.querySelectorAll('a') ?? []].map((one) => one.textContent).sort().join()", "billing,test")


def test_a_node_shows_its_services_and_grants(page: Page) -> None:
    go(page, "nodes/billing")
    page.shows("document.querySelector('main table th[scope=row]')?.textContent", "tax")
    page.shows("[...document.querySelectorAll('dd code')].map((one) => one.textContent).join()", "speedd,test")


def test_services_show_the_last_hour_minute_by_minute(page: Page) -> None:
    go(page, "services")
    page.shows("document.querySelectorAll('svg.heat rect').length > 0", True)
    page.shows("document.querySelector('svg.heat')?.getAttribute('aria-label').includes('slowest')", True)


def test_a_node_that_comes_is_seen_without_loading_anew(page: Page, served: Served) -> None:
    page.run("window.same = true")
    with closing(served.node("newcomer", allow=["speedd"])):
        page.shows(f"{NODES}.includes('newcomer')", True)
    page.shows(f"{NODES}.includes('newcomer')", False)
    assert page.run("window.same") is True


def test_focus_stays_where_it_is_when_figures_change(page: Page, served: Served) -> None:
    page.shows(f"{NODES}.includes('billing')", True)
    page.run("[...document.querySelectorAll('main a')].find((one) => one.textContent === 'billing').focus()")
    with closing(served.node("zz-last", allow=["speedd"])):
        page.shows(f"{NODES}.includes('zz-last')", True)
    assert page.run("document.activeElement.textContent") == "billing"


def test_each_view_is_whole_in_both_themes(page: Page, theme: str) -> None:
    """Nothing is refused by the browser, nothing fails, and axe finds nothing wrong."""
    page.look(1280, theme=theme)
    watched(page)
    for view in VIEWS:
        go(page, view)
        assert page.run("document.querySelectorAll('h1').length") == 1
        assert misfits(page) == [], view
    assert page.run("troubles") == []


@pytest.mark.parametrize("width", [1280, 360])
def test_no_view_scrolls_sideways(page: Page, width: int) -> None:
    page.look(width)
    for view in VIEWS:
        go(page, view)
        assert page.run("document.documentElement.scrollWidth") <= width, view


def test_the_theme_is_that_of_the_machine_until_somebody_chooses(page: Page, theme: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    page.look(1280, theme=theme)
    of_machine = page.run(ground)
    page.run("document.querySelector('#theme').click()")
    assert page.run("document.documentElement.dataset.theme") == "light"
    light = page.run(ground)
    page.run("document.querySelector('#theme').click()")
    dark = page.run(ground)
    assert light != dark
    assert of_machine == {"light": light, "dark": dark}[theme]
    page.run("document.querySelector('#theme').click()")
    assert page.run("document.documentElement.dataset.theme") == "system"


def test_a_keyboard_is_enough(page: Page) -> None:
    page.run("document.body.focus()")
    page.press("Tab")
    assert page.run("document.activeElement.textContent") == "Skip to the content"
    page.press("Tab")
    page.press("Tab")
    assert page.run("document.activeElement.textContent") == "Services"
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press("Enter")
    page.shows(TITLE, "Services")
    assert page.run("document.activeElement.id") == "view"
    page.press("Tab")
    assert page.run("document.activeElement.textContent") == "billing"
    page.press("Enter")
    page.shows(TITLE, "billing")


def test_texts_of_others_are_text(page: Page, served: Served) -> None:
    """Markup makes no element, and what would turn or colour its surroundings is shown by its number."""
    groups = "[...document.querySelectorAll('.group th')].map((one) => one.firstChild.textContent)"
    page.shows(f"{groups}.length", len(HOSTILE) + 1)  # those of speedd itself are a family, too
    found = page.run(groups)
    assert HOSTILE[0] in found
    assert HOSTILE[1] in found
    assert "\\u202eevil\\u2066" in found
    assert "\\u001b[31mred\\u0007" in found
    assert page.run("document.querySelectorAll('main img, main script').length") == 0
    assert page.run("document.title") == "Overview \u2013 SPEED console"


OUTPUT = "document.querySelector('form output')?.textContent"


def test_a_service_is_tried_by_a_form_made_from_its_description(page: Page) -> None:
    go(page, "try/billing/tax")
    page.shows("[...document.querySelectorAll('form [name]')].map((one) => one.name + one.type).join()", FIELDS)
    page.run("document.querySelector('[name=amount]').focus()")
    page.type("50")
    page.press("Enter")
    page.shows("document.querySelector('form output pre')?.textContent", "10")


FIELDS = "amountnumber,countrytext"


def test_what_a_service_refuses_is_shown(page: Page) -> None:
    go(page, "try/billing/tax")
    page.run("document.querySelector('[name=amount]').value = '-1'")
    page.run("document.querySelector('form').requestSubmit()")
    page.shows(f"{OUTPUT}?.includes('less than nothing')", True)


def test_a_topic_shows_its_newest_messages_and_subscriptions(page: Page) -> None:
    go(page, "topics/orders")
    page.shows("document.querySelector('main td code')?.textContent", '{"tea":"<b>2</b>"}')
    page.shows("document.querySelector('main table td .state')?.textContent", "! none")


def test_messages_are_shown_to_who_may_consume_them_alone(page: Page) -> None:
    page.run("location.hash = '#/topics/secret'")
    page.shows(TITLE, "secret")
    assert "consume" in page.run("document.querySelector('section:last-child .nothing').textContent")
    assert "hidden" not in page.run("document.body.textContent")


def test_a_subscription_is_moved(page: Page, served: Served) -> None:
    go(page, "topics/orders")
    page.run("window.confirm = () => true; document.querySelector('[name=to]').value = '1'")
    page.run("document.querySelector('form').requestSubmit()")
    page.shows(OUTPUT, "Goes on at 1.")
    page.run("document.querySelector('[name=to]').value = 'earliest'; document.querySelector('form').requestSubmit()")
    page.shows(OUTPUT, "Goes on at 0.")


def test_the_journal_is_searched(page: Page) -> None:
    go(page, "journal")
    rows = "document.querySelectorAll('main tbody tr').length"
    page.shows(rows, 2)
    page.run("document.querySelector('[name=text]').value = 'ay101'")
    page.run("document.querySelector('form').requestSubmit()")
    page.shows(rows, 1)
    assert "AY101" in page.run("document.querySelector('main tbody').textContent")


def cells(section: str, row: str) -> str:
    """A script: the texts of the row of a table that begins so, of a section."""
    rows = f"[...document.querySelectorAll('section[aria-label=\"{section}\"] tbody tr')]"
    found = f"{rows}.find((one) => one.cells[0].textContent.startsWith('{row}'))"
    return f"[...{found}?.cells ?? []].map((one) => one.textContent)"


def test_a_bridge_that_cannot_carry_says_why_and_what_to_do(page: Page) -> None:
    go(page, "bridges")
    page.shows(f"{cells('Bridges', 'away')}[1]?.startsWith('!')", True)
    page.shows("document.querySelector('section[aria-label=Bridges] .findings strong')?.textContent", "away")
    page.shows("document.querySelector('section[aria-label=Bridges] .cure')?.textContent.startsWith('→ see to')", True)


def test_what_the_gateway_refuses_is_counted(page: Page, served: Served) -> None:
    go(page, "bridges")
    page.shows(f"{cells('Gateway', 'Requests refused')}[2]", "0")
    gateway = HTTPConnection("127.0.0.1", served.speedd.seen("gateway")["port"], timeout=PATIENCE)
    with closing(gateway):
        gateway.request("GET", "/ws/v2/producer/persistent/public/default/orders", headers=HANDSHAKE)
        assert gateway.getresponse().status == 403
    page.shows(f"{cells('Gateway', 'Requests refused')}[2]", "1")


HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def test_the_doctor_says_what_is_in_order_and_what_to_do(page: Page) -> None:
    go(page, "doctor")
    page.shows("[...document.querySelectorAll('h2')].map((one) => one.textContent).join()", "To do,In order")
    page.shows("document.querySelectorAll('section[aria-label=\"In order\"] tbody tr').length > 3", True)
    page.shows(
        "[...document.querySelectorAll('section .findings li')].every((one) => one.querySelector('.cure'))", True
    )


def test_executors_of_a_spark_application_stand_together(page: Page, served: Served) -> None:
    with ExitStack() as ends:
        for number in (1, 2, 3):
            ends.enter_context(closing(served.node(f"nightly.{number}", allow=["speedd"])))
        group = "[...document.querySelectorAll('.group th')].find((one) => one.textContent === 'nightly 3')"
        page.shows(f"{group}?.closest('tbody').querySelectorAll('tr').length", 4)
    page.shows("document.body.textContent.includes('nightly')", False)


def test_dead_letters_of_a_topic_are_published_again(page: Page, served: Served) -> None:
    """They are seen from the topic where they came from, and it says how many there were."""
    test = next(one for one in served.nodes if one.name == "test")
    orders = test.topic("orders")
    with orders.consumer("failing", start="latest", max_deliveries=1, dead_letter=True) as consumer:
        orders.publish({"tea": "poison"})
        message = consumer.receive(timeout=PATIENCE)
        assert message is not None
        consumer.reject(message, delay=0)
        assert consumer.receive(timeout=0.5) is None
        go(page, "topics/orders")
        page.shows(f"{cells('Dead letters', 'orders-failing-DLQ')}[1]", "1")
        page.run("document.querySelector('section[aria-label=\"Dead letters\"] a').click()")
        page.shows(TITLE, "orders-failing-DLQ")
        page.run("window.confirm = () => true; document.querySelector('[data-act=redrive]').requestSubmit()")
        page.shows(OUTPUT, "1 published again.")
        page.shows("document.querySelector('[data-act=redrive] button').disabled", True)
        again = consumer.receive(timeout=PATIENCE)
        assert again is not None
        assert (again.payload, again.publisher) == ({"tea": "poison"}, "test")
        consumer.acknowledge(again)
    orders.unsubscribe("failing")


def test_a_dead_letter_of_a_node_is_tried_again(page: Page, served: Served) -> None:
    seen, is_mended = [], threading.Event()

    def handle(message: speed.Message) -> None:
        if not is_mended.is_set():
            raise ValueError("the till is shut")
        seen.append(message.payload)

    test = next(one for one in served.nodes if one.name == "test")
    with closing(served.node("till", allow=["test", "speedd"], on_error="retry", max_deliveries=1)) as till:
        till.subscribe("sales", handle)
        test.publish("sales", {"amount": 7})
        page.run("location.hash = '#/nodes/till'")
        page.shows(f"{cells('Dead letters', '1')}[2]?.includes('the till is shut')", True)
        is_mended.set()
        page.run("document.querySelector('[data-act=retry]').requestSubmit()")
        page.shows("document.querySelector('[data-act=retry]') === null", True)
        page.shows("document.querySelector('section[aria-label=\"Dead letters\"] .nothing')?.textContent", "None.")
    assert seen == [{"amount": 7}]


VICTIM = """
import sys, speed
node = speed.Node("victim", root=sys.argv[1], key=sys.argv[2], allow=["speedd"], lease_seconds=4, heartbeat_seconds=1)
print("up", flush=True)
sys.stdin.read()
"""


def test_a_node_that_is_killed_while_it_is_seen_does_not_answer_and_is_not_there_in_the_end(
    page: Page, served: Served
) -> None:
    words = [sys.executable, "-c", VICTIM, served.root, served.key]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"up\n"
        page.run("location.hash = '#/nodes/victim'")
        page.shows("document.querySelector('h1 .state')?.textContent", "✓ up")
        victim.kill()
    page.shows("document.querySelector('h1').textContent !== 'victim ✓ up'", True)
    page.shows(TITLE, "Not there")
    page.run("document.querySelector('main a').click()")
    page.shows(TITLE, "Overview")


def test_a_tab_beyond_the_bound_says_so_and_shows_what_is_new_nevertheless(served: Served, browser: Browser) -> None:
    visitor, streams = served.visitor(), []
    try:
        while (answer := visitor.ask("/api/events")).status == 200:
            streams.append(answer)
        with closing(served.page(browser)) as page:
            page.shows("document.querySelector('#pulse').textContent", "too many pages look at this root: close some")
            with closing(served.node("unannounced", allow=["speedd"])):
                page.shows(f"{NODES}.includes('unannounced')", True)
            for one in streams:
                one.close()
            page.shows("document.querySelector('#pulse').textContent", "Live")
    finally:
        for one in streams:
            one.close()


def test_an_address_that_was_used_says_so(served: Served, browser: Browser) -> None:
    address = served.address()
    with closing(browser.page(address)) as first:
        first.shows(TITLE, "Overview")
        first.shows("location.pathname + location.search", "/")
    with closing(browser.page(address)) as second:
        second.shows(TITLE, "This address lets nobody in")


@pytest.fixture
def stranger(served: Served, browser: Browser) -> Iterator[Page]:
    """A tab whose browser was not let in: it has another name of the same host."""
    with closing(browser.page(f"http://localhost:{served.port}/")) as opened:
        yield opened


def test_a_browser_that_was_not_let_in_learns_how(stranger: Page) -> None:
    stranger.shows(TITLE, "This browser is not let in")
    stranger.shows("document.querySelector('main code')?.textContent", "speedd console")
    assert misfits(stranger) == []


def test_a_view_of_nobody_says_so(page: Page) -> None:
    page.run("location.hash = '#/nodes/nobody'")
    page.shows(TITLE, "Not there")
    page.run("location.hash = '#/%E0%A4%A/<script>'")
    page.shows(TITLE, "Overview")


LOADED = "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


def test_a_first_visit_loads_little(page: Page, served: Served) -> None:
    """The address that lets in has a page of its own, with the same files."""
    page.shows(f"{NODES}.includes('billing')", True)
    loaded = page.run(f"{LOADED}.reduce((sum, one) => sum + one.transferSize, 0)")
    print(f"{loaded:,} bytes")
    assert Path(PAGE, "console.js").stat().st_size < loaded
    assert 2 * loaded <= MAX_PAGE_BYTES


def test_something_is_seen_soon(page: Page) -> None:
    paints = []
    for _ in range(5):
        page.ask("Page.reload", ignoreCache=True)
        page.shows(TITLE, "Overview")
        page.shows(f"({PAINT}) > 0", True)
        paints.append(page.run(PAINT))
    print(f"first paint after {paints} ms")
    assert median(paints) <= MAX_PAINT_MS
