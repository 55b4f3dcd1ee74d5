"""A server with the S3 protocol on this machine, for tests of folders in an object store."""

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

__all__ = ("new_bucket", "object_store")

_NUMBERS = count()


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """Run a server in threads of this process; give the environment variables with which any process finds it.

    The server answers one request at a time, because moto checks the condition of a put and writes in two steps.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application: Any = DomainDispatcherApplication(create_backend_app)  # Any: moto has no types
    guard = Lock()

    def one_at_a_time(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        with guard:
            answer: Iterable[bytes] = application(environ, start_response)
            return answer

    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True, request_handler=MotoRequestHandler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    found = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
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
        server.shutdown()
        thread.join()
        server.server_close()


def new_bucket() -> str:
    """Return the URI of a new bucket of the server that runs."""
    import boto3  # noqa: PLC0415 - comes with moto, and takes a second to load

    client: Any = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])  # Any: boto3 has no types
    name = f"bucket-{next(_NUMBERS)}"
    client.create_bucket(Bucket=name)
    return f"s3://{name}"
