"""The running node: threads, locks and the public ``Node``.

Threads of a node (RFC 2), each named ``speed-<node>-<role>``, each a daemon with a bounded wait:

* ``protocol`` waits on the bell, reads lanes, verifies, dispatches.
* ``registry`` renews the lease, watches joins and leaves, notices nodes that died.
* ``worker-N`` run services, message and event handlers; started when first needed.

Locks and their order (a holder may take only locks further down):

1. ``Links.lock``           the table of outgoing links
2. ``OutgoingLink.lock``    sequence, sealing and appending of one link; free while a sender waits for room
3. ``InboundLane.lock``     reading, finishing and committing of one lane
4. ``Registration`` lock    the entry file (fs)
5. ``Stats.lock``           counters; nothing is taken under it
"""
