"""The running node: threads, locks and the public ``Node``.

Threads of a node (RFC 2), each named ``speed-<node>-<role>``, each a daemon with a bounded wait:

* ``protocol`` holds the *protocol role*: it waits on the bell, reads lanes, verifies, dispatches.
* ``registry`` renews the lease, watches joins and leaves, notices nodes that died.
* ``worker-N`` run services, message and event handlers; started when first needed.

Locks and their order (a holder may take only locks further down):

1. ``WorkerPool.role``      one thread at a time reads lanes
2. ``WorkerPool`` gate      from taking a request to its beginning: requests begin in order
3. ``DelayedRequests`` lock from taking delayed requests to writing them
4. ``Links.lock``           the table of outgoing links
5. ``OutgoingLink.lock``    sequence, sealing and appending of one link; free while a sender waits for room
6. ``InboundLane.lock``     reading, finishing and committing of one lane
7. ``Registration`` lock    the entry file (fs)
8. ``Stats.lock``           counters; nothing is taken under it
"""
