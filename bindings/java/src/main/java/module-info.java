/**
 * SPEED: secure filesystem IPC between unrelated processes. {@link speed.Node} is the way in.
 *
 * <p>aircompressor is optional: a program that compresses messages by zstd, lz4 or snappy requires it itself.
 */
module speed {
    requires com.google.protobuf;
    requires com.sun.jna;
    requires java.sql;
    requires msgpack.core;
    requires org.bouncycastle.provider;
    requires org.slf4j;
    requires org.xerial.sqlitejdbc;
    requires static aircompressor;
    requires static java.management;

    exports speed;
    exports speed.columns;
    exports speed.errors;
    exports speed.message;
    exports speed.options;
    exports speed.topics;
    exports speed.values;

    uses speed.internal.spi.Engine;

    provides speed.internal.spi.Engine with
            speed.internal.node.NodeEngine;
}
