/**
 * SPEED: secure filesystem IPC between unrelated processes. {@link speed.Node} is the way in.
 *
 * <p>BouncyCastle and aircompressor are optional: a program that encrypts messages by ML-KEM requires
 * {@code org.bouncycastle.provider} itself, one that compresses them by zstd, lz4 or snappy {@code aircompressor}.
 */
module speed {
    requires com.google.protobuf;
    requires com.sun.jna;
    requires java.sql;
    requires msgpack.core;
    requires org.slf4j;
    requires org.xerial.sqlitejdbc;
    requires static aircompressor;
    requires static java.management;
    requires static org.bouncycastle.provider;

    exports speed;
    exports speed.columns;
    exports speed.errors;
    exports speed.message;
    exports speed.options;
    exports speed.topics;

    uses speed.internal.spi.Engine;

    provides speed.internal.spi.Engine with
            speed.internal.node.NodeEngine;
}
