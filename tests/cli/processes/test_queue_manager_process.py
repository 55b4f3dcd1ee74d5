"""The process of a queue manager that `mqflow run` has started."""

import anyio
import pytest

from mqflow.cli.processes.end_request import EndRequest
from mqflow.cli.processes.queue_manager_process import _end_after_applications


@pytest.mark.anyio
async def test_the_queue_manager_ends_after_the_process_that_started_it() -> None:
    end = EndRequest()
    async with anyio.create_task_group() as group:
        group.start_soon(_end_after_applications, (), end, 0.0)
        await anyio.wait_all_tasks_blocked()
        assert not end.requested
        end.parent_ended.set()

    assert (True, False) == (end.requested, end.for_good)
