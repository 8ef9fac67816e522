package speed.runtime;

/** The parts of one running node that know of each other. */
record Parts(
        Context context,
        Links links,
        Calls calls,
        Serving serving,
        Delivery delivery,
        Introspection introspection,
        WorkerPool pool,
        Futures futures) {}
