"""A cluster on this machine: coordinators and executors of one configuration, each a process.

    with LocalCluster(Path("here"), nodes=3, executors=2) as cluster:
        cluster.start()
        cluster.wait_ready()
        with Client(cluster.addresses) as client:
            client.infer("echo", "hello")
        cluster.kill(cluster.leader())

What lives here: starting, watching and ending those processes. What must never live here: an
import of a coordinator or an executor, which are commands here. Called by: `raftbatch up`, the
demo, tests and chaos.
"""

from raftbatch.local.cluster import LocalCluster

__all__ = ["LocalCluster"]
