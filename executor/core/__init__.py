"""What an executor holds, runs and says, without time, calls or processes.

    feed messages ------+                         +--> run, warm up, kill
    children: up, down, |--> machine (holdings) --|--> reports, until they are settled
    ran, failed --------+                         +--> heartbeats, tails, ready, drain, leave

Everything is handed in and out as values; the shell (`executor.agent`) carries it out.
"""
