package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.InvalidNameException;
import speed.internal.wire.Names.LaneFile;
import speed.internal.wire.Names.SlotId;

/** W-1 names, W-2 topics, A-2 grants, W-3 node ids, L-1 and R-4 file names. */
class NamesTest {
    private final Contract vectors = Contract.vectors("names");

    @TestFactory
    Stream<DynamicTest> aValidNameHasTheStatedId() {
        return vectors.each("valid_names", one -> {
            Names.checkNode(one.text("name"));
            assertEquals(one.text("node_id"), NodeId.of(one.text("name")).hex());
        });
    }

    @TestFactory
    Stream<DynamicTest> anInvalidNameIsRefused() {
        return vectors.each(
                "invalid_names",
                one -> assertThrows(InvalidNameException.class, () -> Names.checkNode(one.text("name"))));
    }

    @Test
    void invalidTopicsGrantsAndPatternsAreRefused() {
        refuseEach("invalid_topics", Names::checkTopic);
        refuseEach("invalid_grants", Names::checkGrant);
        refuseEach("invalid_topic_patterns", Names::checkTopicPattern);
    }

    private void refuseEach(String list, Consumer<String> check) {
        for (Object text : (List<?>) vectors.get(list)) {
            assertThrows(InvalidNameException.class, () -> check.accept((String) text), text::toString);
        }
    }

    @Test
    void validTopicsGrantsAndPatternsAreAccepted() {
        each("valid_topics", Names::checkTopic);
        each("valid_grants", Names::checkGrant);
        each("valid_topic_patterns", Names::checkTopicPattern);
    }

    private void each(String list, Consumer<String> check) {
        for (Object text : (List<?>) vectors.get(list)) {
            check.accept((String) text);
        }
    }

    @TestFactory
    Stream<DynamicTest> aPatternCoversWhatItSays() {
        return vectors.each(
                "matching",
                one -> assertEquals(one.get("matches"), Names.matches(one.text("pattern"), one.text("name"))));
    }

    @Test
    void aFileNameIsReadInItsOneSpelling() {
        for (Contract one : vectors.cases("files")) {
            assertEquals(Json.write(one.get("parsed")), Json.write(parsed(one)), one.text("file"));
        }
    }

    private static Object parsed(Contract one) {
        String file = one.text("file");
        LaneFile segment = Names.parseLaneFile(file);
        SlotId slot = Names.parseSlot(file);
        int generation = switch (one.text("kind")) {
            case "cursor" -> Names.parseCursor(file);
            case "start" -> Names.parseStart(file);
            case "fence" -> Names.parseFence(file);
            default -> 0;
        };
        return switch (one.text("kind")) {
            case "slot" -> slot == null ? null : List.of(slot.generation(), slot.number());
            case "segment" -> segment == null ? null : List.of(segment.generation(), segment.number());
            case "claim" -> parsedClaim(file);
            case "entry" -> Names.parseEntry(file);
            default -> generation == 0 ? null : generation;
        };
    }

    /** A claim is looked for by the name of its node. */
    private static Object parsedClaim(String file) {
        String name = file.substring(0, file.lastIndexOf('.'));
        int generation = Names.isNode(name) ? Names.parseClaim(file, name) : 0;
        return generation == 0 ? null : List.of(name, generation);
    }

    /** W-1, W-2, A-2: nothing is no name. */
    @Test
    void nothingIsNoName() {
        for (Consumer<String> check : List.<Consumer<String>>of(
                Names::checkNode,
                Names::checkService,
                Names::checkTopic,
                Names::checkGrant,
                Names::checkTopicPattern)) {
            assertThrows(InvalidNameException.class, () -> check.accept(null));
            assertThrows(InvalidNameException.class, () -> check.accept(""));
        }
        assertFalse(Names.isNode(null) || Names.isService(null) || Names.isTopic(null));
        assertFalse(Names.isNode("speed_registry"));
        assertTrue(Names.matches("*", "orders.created"));
        assertNull(Names.parseLaneFile("-.lane"));
        assertNull(Names.parseLaneFile("000001.lane-"));
    }
}
