package speed.tool;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import speed.internal.message.MessageGuard;
import speed.internal.wire.Json;
import speed.internal.wire.MessageDraft;
import speed.message.Algorithm;
import speed.message.KeyBounds;
import speed.message.MessageKey;
import speed.message.MessageSecurity;
import speed.message.Protection;
import speed.message.SchemaReference;

/**
 * Signed and encrypted messages for other languages to verify and open: one for each algorithm and encoding. A line has
 * {@code keys} as well, the records of the reader.
 */
final class ProtectedVectors {
    /** One message and the keys that its reader needs. */
    record Made(String name, byte[] message, List<MessageKey> keys) {}

    private static final byte[] PAYLOAD = "hello".repeat(20).getBytes(StandardCharsets.US_ASCII);
    private static final SchemaReference SCHEMA = SchemaReference.of("order", "2", "json-schema", PAYLOAD);
    private static final MessageDraft DRAFT = new MessageDraft(
            "0b6e4f0c-0000-7000-8000-000000000001",
            "orders.created",
            "default",
            1_700_000_000_123L,
            "billing",
            MessageDraft.Options.NONE);

    private static final List<String> ENCODINGS = List.of("none", "gzip", "zstd", "lz4", "snappy");
    private static final Map<String, Object> ORDER = Map.of("amount", 1000);

    private final MessageGuard<Protection, SchemaReference> guard =
            guard(MessageSecurity.NONE.withPublisherTeam("payments"));

    private ProtectedVectors() {}

    /** With keys that are made here. */
    static List<Made> generated() {
        return new ProtectedVectors().made();
    }

    /** With a key of the vectors: encrypted to it in each encoding, or signed by it. */
    static List<Made> of(MessageKey key) {
        MessageGuard<Protection, SchemaReference> plain = guard(MessageSecurity.NONE);
        Protection protection =
                key.algorithm().isSignature() ? Protection.NONE.signWith(key) : Protection.NONE.encryptTo(key);
        return ENCODINGS.stream()
                .map(encoding -> new Made(
                        key.id(),
                        plain.write(DRAFT, ORDER, protection.compressed(encoding), SchemaReference.NONE),
                        List.of()))
                .toList();
    }

    private static MessageGuard<Protection, SchemaReference> guard(MessageSecurity security) {
        return MessageGuard.of(security, "");
    }

    private List<Made> made() {
        List<Made> made = new ArrayList<>();
        MessageKey signer = null;
        for (Algorithm algorithm : Algorithm.values()) {
            MessageKey key = key(algorithm.label() + "-1", algorithm);
            signer = algorithm == Algorithm.ED25519 ? key : signer;
            Protection protection =
                    algorithm.isSignature() ? Protection.NONE.signWith(key) : Protection.NONE.encryptTo(key);
            made.add(written(algorithm.label(), protection, key));
        }
        MessageKey reader = key("reader-1", Algorithm.X25519);
        MessageKey other = key("other-1", Algorithm.X25519);
        made.add(written("second of two", Protection.NONE.encryptTo(other.publicPart(), reader.publicPart()), reader));
        made.add(written(
                "everything",
                Protection.NONE
                        .encryptTo(reader)
                        .signWith(signer)
                        .compressed("zstd")
                        .withPii()
                        .classified("restricted")
                        .withAad(new byte[] {0, 1, 2}),
                reader,
                signer));
        MessageKey rsa = key("direct-1", Algorithm.RSA_OAEP_3072);
        made.add(written("direct RSA", Protection.NONE.encryptTo(rsa).directly(), rsa));
        for (String encoding : ENCODINGS.subList(1, ENCODINGS.size())) {
            made.add(written(encoding, Protection.NONE.compressed(encoding)));
        }
        return made;
    }

    private static MessageKey key(String id, Algorithm algorithm) {
        return MessageKey.generate(id, algorithm).withBounds(KeyBounds.NONE.withPublishers("billing"));
    }

    private Made written(String name, Protection protection, MessageKey... keys) {
        return new Made(name, guard.write(DRAFT, PAYLOAD, protection, SCHEMA), List.of(keys));
    }

    /** The fields of a line. */
    static Map<String, Object> line(Made made) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("kind", "protected");
        line.put("name", made.name());
        line.put("hex", HexFormat.of().formatHex(made.message()));
        line.put(
                "keys",
                made.keys().stream().map(key -> Json.parse(key.toJson())).toList());
        return line;
    }
}
