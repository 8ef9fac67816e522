package speed.internal.node;

import speed.internal.engine.Context;
import speed.internal.engine.Introspection;
import speed.internal.engine.call.Calls;
import speed.internal.engine.deliver.Delivery;
import speed.internal.engine.link.Links;
import speed.internal.engine.serve.Serving;
import speed.internal.engine.threads.Futures;
import speed.internal.engine.threads.WorkerPool;

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
