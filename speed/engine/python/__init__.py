"""The Python engine: a running node, its threads and locks. The default node, which is native, opens none of it.

Threads of a node (RFC 2), each named ``speed-<node>-<role>``, each a daemon with a bounded wait:

* ``protocol`` waits on the bell, reads lanes, verifies, dispatches; it runs nothing of the program's and waits for no
  room in another's inbox (T-11).
* ``large-1`` reads envelopes above 4 MiB for it, one at a time, while their lanes wait; started when first needed.
* ``registry`` renews the lease, watches joins and leaves, notices nodes that died.
* ``worker-N`` run services, handlers and callbacks as the Scheduler says; started when first needed.
* ``loop`` awaits what is ``async``.
* ``speed-stream-ID`` sends the items of one stream; ``speed-items-ID`` goes through those of a caller.
* For ``node.aio``: ``start-N`` write calls, ``await-N`` do what else may wait, ``receive`` fetches messages.
* ``settling-N`` tell callers of servers that are gone, or send their calls to the successor; started when needed.
* ``lost`` tells of a lost lease, ``abort`` ends the node when a worker found that out.

Locks, by the names that ``speed.engine.threads`` makes them under, in their order: who holds one may take only those
further down.

1.  ``node``         grants, services and subscriptions being published
2.  ``turn``         from taking a request to its beginning: requests begin in order
3.  ``segments``, ``sending``  what is kept of payloads in segments; the items of one stream while they are written
4.  ``links``        the table of outgoing links
5.  ``link``         sequence, sealing and appending of one link; free while a sender waits for room
6.  ``lane``         reading, finishing and committing of one lane
7.  ``work``         the Scheduler, and who waits for work
8.  ``answers``, ``withdrawals``, ``settling``, ``pending``, ``threads``, ``receiving``, ``loop``, ``watch``, ``stream``
9.  ``outcome``      one waiter's place, and a resting worker's
10. ``limiter``, ``stats``   what is counted and logged; nothing is taken under them

Below all of these: the lock of the own entry and those of bells (``speed.fs``), which take nothing themselves.
"""
