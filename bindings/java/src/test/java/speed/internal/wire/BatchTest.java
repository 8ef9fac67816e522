package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.protobuf.Any;
import com.google.protobuf.Timestamp;
import java.util.AbstractMap.SimpleEntry;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.BatchException;
import speed.errors.ConfigurationException;
import speed.errors.InvalidNameException;
import speed.errors.UnserialisableException;
import speed.errors.WireException;
import speed.tool.PlainJson.Notation;

/** M-30: many payloads in one message. */
class BatchTest {
    private static final int ROUNDS = 2_000;

    private final Contract vectors = Contract.vectors("batches");
    private final long seed = Long.getLong("speed.seed", System.nanoTime());
    private final Random random = new Random(seed);

    private static String hex(byte[] data) {
        return HexFormat.of().formatHex(data);
    }

    @TestFactory
    Stream<DynamicTest> aBatchIsWrittenWithTheStatedBytes() {
        return vectors.each("written", one -> {
            Content batch = Batch.of((List<?>) one.value("payloads"));
            assertEquals("application/x-speed-batch", batch.typeName());
            assertEquals(one.text("hex"), hex(batch.data()));
        });
    }

    @TestFactory
    Stream<DynamicTest> whatIsWrittenIsReadAsTheSameValues() {
        return vectors.each(
                "written",
                one -> assertEquals(
                        Contract.spelled(one.value("payloads")), Contract.spelled(Batch.decode(one.bytes("hex")))));
    }

    @TestFactory
    Stream<DynamicTest> aBatchIsReadAsTheStatedParts() {
        return vectors.each("read", one -> {
            byte[] data = one.bytes("hex");
            List<Contract> stated = one.cases("parts");
            List<Batch.Part> parts = Batch.split(data);
            assertEquals(stated.size(), parts.size());
            for (int index = 0; index < parts.size(); index++) {
                Batch.Part part = parts.get(index);
                assertEquals(stated.get(index).text("content_type"), part.contentType());
                assertEquals(stated.get(index).text("type_url"), part.typeUrl());
                assertEquals(
                        stated.get(index).text("hex"),
                        hex(Arrays.copyOfRange(data, part.from(), part.from() + part.length())));
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> aBatchThatLiesIsRefused() {
        return vectors.each(
                "refused",
                one -> assertEquals(
                        "BAD_BATCH",
                        assertThrows(BatchException.class, () -> Batch.decode(one.bytes("hex")))
                                .code()));
    }

    @TestFactory
    Stream<DynamicTest> payloadsForSeveralTopicsAreOneBatchOfEach() {
        return vectors.each("topics", one -> {
            Map<String, String> stated = new LinkedHashMap<>();
            one.cases("batches").forEach(batch -> stated.put(batch.text("topic"), batch.text("hex")));
            Map<String, String> made = new LinkedHashMap<>();
            Batch.ofTopics(pairs(one.get("pairs"))).forEach((topic, batch) -> made.put(topic, hex(batch.data())));
            assertEquals(List.copyOf(stated.entrySet()), List.copyOf(made.entrySet()));
        });
    }

    private static List<Map.Entry<String, Object>> pairs(Object noted) {
        List<Map.Entry<String, Object>> pairs = new ArrayList<>();
        for (Object pair : (List<?>) noted) {
            List<?> both = (List<?>) pair;
            pairs.add(new SimpleEntry<>((String) both.get(0), Notation.value(both.get(1))));
        }
        return pairs;
    }

    @Test
    void aProtobufMessageTravelsWithItsType() {
        Timestamp time = Timestamp.newBuilder().setSeconds(7).build();
        Any read = (Any) Batch.decode(Batch.of(List.of(time)).data()).get(0);
        assertEquals("type.googleapis.com/google.protobuf.Timestamp", read.getTypeUrl());
        assertEquals(time.toByteString(), read.getValue());
    }

    @Test
    void aContentTypeWithoutADecoderGivesItsBytes() {
        assertArrayEquals("avro".getBytes(), (byte[])
                Batch.decode(vectors.cases("read").get(0).bytes("hex")).get(0));
    }

    @Test
    void asManyPayloadsAsAreAllowedAreRead() {
        byte[] most = Batch.of(Collections.nCopies(Batch.MAX_PAYLOADS, null)).data();
        assertEquals(Batch.MAX_PAYLOADS, Batch.decode(most).size());
    }

    @Test
    void morePayloadsThanAreAllowedAreNotWritten() {
        assertThrows(BatchException.class, () -> Batch.of(Collections.nCopies(Batch.MAX_PAYLOADS + 1, null)));
    }

    @Test
    void aContentTypeThatIsTooLongIsNotWritten() {
        Content one = new Content(Fields.ContentType.CUSTOM, "x".repeat(257), null, new byte[0]);
        assertThrows(BatchException.class, () -> Batch.of(List.of(one)));
    }

    @Test
    void whatCannotBeEncodedOrIsNoTopicKeepsAllBack() {
        Map.Entry<String, Object> sound = Map.entry("orders.made", 1);
        assertThrows(
                UnserialisableException.class,
                () -> Batch.ofTopics(List.of(sound, Map.entry("orders.paid", new Object()))));
        assertThrows(InvalidNameException.class, () -> Batch.ofTopics(List.of(sound, Map.entry("orders..paid", 1))));
        assertThrows(ConfigurationException.class, () -> Batch.ofTopics(Arrays.asList(sound, null)));
    }

    @Test
    void aPayloadThatIsNotWhatItsTypeSaysIsBadMessage() {
        byte[] batch = HexFormat.of().parseHex("00000001" + "0000000a" + hex("text/plain".getBytes()) + "00000001ff");
        assertEquals(
                "BAD_MESSAGE",
                assertThrows(WireException.class, () -> Batch.decode(batch)).reason());
    }

    /** Nothing but what is named, whatever the bytes are. */
    @Test
    void garbageEndsWithANamedError() {
        System.out.println("seed " + seed);
        List<byte[]> sound = Stream.of("written", "read", "refused")
                .flatMap(list -> vectors.cases(list).stream())
                .map(one -> one.bytes("hex"))
                .toList();
        for (int round = 0; round < ROUNDS; round++) {
            byte[] noise = new byte[random.nextInt(64)];
            random.nextBytes(noise);
            read(noise);
            sound.forEach(data -> read(altered(data)));
        }
    }

    private static void read(byte[] data) {
        try {
            Batch.decode(data);
        } catch (BatchException named) {
            // as it should be
        } catch (WireException named) {
            assertEquals("BAD_MESSAGE", named.reason());
        } catch (RuntimeException | Error defect) {
            throw new AssertionError(hex(data), defect);
        }
    }

    /** Another byte, or a piece less. */
    private byte[] altered(byte[] sound) {
        byte[] data = sound.clone();
        if (data.length > 0) {
            int at = random.nextInt(data.length);
            data[at] ^= (byte) (1 + random.nextInt(255));
            return random.nextBoolean() ? data : Arrays.copyOf(data, at);
        }
        return data;
    }
}
