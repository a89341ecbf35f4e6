"""The SDK: requests in, results out, whoever of the cluster dies meanwhile.

    from raftbatch.client import Client

    with Client("127.0.0.1:8001") as client:
        result = client.infer("echo", {"text": "hello"})
        print(result["text"])

`AsyncClient` is the same on asyncio. Both follow the leader, learn all nodes from any one,
and ask again, with the same request id, whatever they do not know; so a request is run
once, and its result is had once. Errors are those of `raftbatch.errors`: `error.definite`
says whether the request certainly did not, and will not, happen.

What lives here: the SDK. What must never: an import of a coordinator or an executor, or of
torch; numpy is used where it is installed. Called by: users, the command line.
"""

from raftbatch.client.aio import AsyncClient
from raftbatch.client.failures import RequestCancelled, RequestFailed
from raftbatch.client.inputs import Payload
from raftbatch.client.options import TLS, ClientOptions
from raftbatch.client.results import Result
from raftbatch.client.sync import Client
from raftbatch.trailers import Refused

__all__ = [
    "TLS",
    "AsyncClient",
    "Client",
    "ClientOptions",
    "Payload",
    "Refused",
    "RequestCancelled",
    "RequestFailed",
    "Result",
]
