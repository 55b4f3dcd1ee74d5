"""The delay processors of a queue manager that a command serves."""

import anyio
import pytest

from mqflow.cli.processes.delay_processors import DelayProcessors
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes


@pytest.mark.anyio
async def test_a_stop_ends_the_processors_of_both_staging_queues() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="LATER"))
        delayed = DelayProcessors(queue_manager, disposition_queue="", delay_queue="LATER")

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(delayed.run)
                await anyio.wait_all_tasks_blocked()
                delayed.stop()
