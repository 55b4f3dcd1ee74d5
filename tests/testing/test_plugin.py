"""The plugin in another project's pytest: in a separate folder, with mqflow installed and no configuration."""

import subprocess
import sys

import pytest

pytest_plugins = ("pytester",)

APPLICATION = """
from mqflow import App, Context

app = App("embedded::memory:")
booked = []


@app.listener("IN")
async def book(order: dict, ctx: Context) -> None:
    booked.append(order)
    await ctx.put("OUT", order)
"""

DEFINITIONS = """
from application import app, booked

QUEUES = "DEFINE QLOCAL('IN') BOTHRESH(9) BOQNAME('BAD')", "DEFINE QLOCAL('OUT')", "DEFINE QLOCAL('BAD')"
"""


def run_pytest(pytester: pytest.Pytester, tests: str, *options: str) -> str:
    """Return the output of such a pytest run of these tests."""
    pytester.makepyfile(application=APPLICATION, test_it=DEFINITIONS + tests)
    pytester.syspathinsert()
    return "\n".join(pytester.runpytest_inprocess(*options).outlines)


def test_a_coroutine_test_that_asks_for_mq_runs_by_itself(pytester: pytest.Pytester) -> None:
    shown = run_pytest(
        pytester,
        """
import anyio

async def test_it(mq):
    mq.mqsc(*QUEUES)
    async with mq.run(app):
        await anyio.sleep(3_600)
        await mq.put("IN", {"n": 1})
        [out] = await mq.drain("OUT")
    assert out.json() == {"n": 1}

async def test_that_must_fail(mq):
    assert mq.depth("SYSTEM.DEAD.LETTER.QUEUE") == 1
""",
    )

    assert "1 failed, 1 passed" in shown, shown
    assert "test_that_must_fail" in shown


def test_a_test_runs_on_both_event_loops_where_the_ini_file_says_so(pytester: pytest.Pytester) -> None:
    shown = run_pytest(
        pytester,
        """
import pytest, sniffio

async def test_it(mq, mq_backend):
    print("it ran on", mq_backend, sniffio.current_async_library())

@pytest.mark.mq_backend("trio")
async def test_marked(mq):
    print("marked ran on", sniffio.current_async_library())
""",
        "-s",
        "-o",
        "mq_backends=asyncio trio",
    )

    assert "3 passed" in shown, shown
    assert "it ran on asyncio asyncio" in shown
    assert "it ran on trio trio" in shown
    assert "marked ran on trio" in shown


def test_the_error_names_an_unknown_event_loop(pytester: pytest.Pytester) -> None:
    shown = run_pytest(pytester, "async def test_it(mq): ...\n", "-o", "mq_backends=curio")

    assert "curio is not an event loop. Use one of: asyncio, trio" in shown


def test_every_call_of_an_application_is_broken_in_turn(pytester: pytest.Pytester) -> None:
    shown = run_pytest(
        pytester,
        """
import pytest

runs = 0

@pytest.mark.mq_faults("every-call")
async def test_it(mq):
    global runs
    runs += 1
    booked.clear()
    mq.mqsc(*QUEUES)
    async with mq.run(app):
        await mq.put("IN", {"n": 1}, persistent=True)
        out = await mq.drain("OUT")
    assert [each.json() for each in out] == [{"n": 1}]
    assert mq.depth("IN") == 0

def test_it_ran_often():
    assert runs > 10
""",
    )

    assert "2 passed" in shown, shown


def test_a_run_that_a_broken_call_makes_fail_says_which_call(pytester: pytest.Pytester) -> None:
    shown = run_pytest(
        pytester,
        """
import pytest

@pytest.mark.mq_faults("every-call")
async def test_it(mq):
    booked.clear()
    mq.mqsc(*QUEUES)
    async with mq.run(app):
        await mq.put("IN", {"n": 1})
        await mq.drain("OUT")
    assert booked == [{"n": 1}], "handled twice"
""",
    )

    assert "1 failed" in shown, shown
    assert "handled twice" in shown
    assert "with the connection broken" in shown
    assert "of a run without faults" in shown


def test_every_call_needs_a_coroutine_test_with_mq(pytester: pytest.Pytester) -> None:
    """The test would run once, and break no call."""
    shown = run_pytest(
        pytester,
        """
import pytest

pytestmark = pytest.mark.mq_faults("every-call")

def test_plain(mq):
    pass

def test_other():
    pass
""",
    )

    assert "2 failed" in shown, shown
    assert "test_it.py::test_other: mq_faults needs a coroutine function (async def) with the fixture mq." in shown


def test_a_test_keeps_the_defaults_of_its_parameters(pytester: pytest.Pytester) -> None:
    shown = run_pytest(pytester, "async def test_it(mq, depth=0):\n    assert mq.define('Q') or mq.depth('Q') == depth\n")

    assert "1 passed" in shown, shown


def test_a_wrong_mark_is_refused(pytester: pytest.Pytester) -> None:
    shown = run_pytest(pytester, "import pytest\n@pytest.mark.mq_faults('often')\nasync def test_it(mq): ...\n")

    assert "mq_faults takes 'every-call', not ('often',)" in shown


def test_other_coroutine_tests_and_other_plugins_are_left_alone(pytester: pytest.Pytester) -> None:
    shown = run_pytest(
        pytester,
        """
import pytest, anyio

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_of_anyio(anyio_backend):
    await anyio.sleep(0)

def test_plain(mq):
    mq.define("Q")
""",
    )

    assert "2 passed" in shown, shown


def test_the_plugin_imports_nothing_of_mqflow_until_it_is_asked() -> None:
    script = (
        "import sys, mqflow.testing.plugin\n"
        "print(sorted(name for name in sys.modules if name.startswith('mqflow') or name in ('anyio', 'msgspec', 'asyncio')))"
    )

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=250)

    assert "['mqflow', 'mqflow.testing', 'mqflow.testing.plugin']" == loaded.stdout.strip()


@pytest.mark.mq_backend("asyncio")
def test_the_marker_is_declared(request: pytest.FixtureRequest) -> None:
    assert "mq_backend(*names)" in " ".join(request.config.getini("markers"))
