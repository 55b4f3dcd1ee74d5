"""A server with the S3 protocol on this machine, for tests of folders in an object store."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

from moto.server import ThreadedMotoServer

__all__ = ("new_bucket", "object_store")

_NUMBERS = count()


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """Run a server in threads of this process; give the environment variables with which any process finds it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    found = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",  # moto takes any
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    try:
        with patch.dict(os.environ, found):
            yield found
    finally:
        server.stop()


def new_bucket() -> str:
    """Return the URI of a new bucket of the server that runs."""
    import boto3  # noqa: PLC0415 - comes with moto, and takes a second to load

    client: Any = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])  # Any: boto3 has no types
    name = f"bucket-{next(_NUMBERS)}"
    client.create_bucket(Bucket=name)
    return f"s3://{name}"
