package speed.internal.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.WireException;
import speed.internal.wire.Content;
import speed.internal.wire.Contract;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.MessageView;
import speed.internal.wire.Schema;
import speed.internal.wire.Security;

/** M-24, M-28: what a node refuses that has no settings. */
class MessageProtectionTest {
    private static final Schema NO_SCHEMA = new Schema("", "", "", "", "", "", List.of());
    private final MessageProtection node = new MessageProtection("node", null, new LogLimiter());

    private static MessageView message(byte[] data) {
        return MessageView.of(data);
    }

    private static MessageView classified(String level) {
        MessageDraft draft =
                new MessageDraft("id-1", "orders.created", "default", 1, "billing", MessageDraft.Options.NONE);
        Security context = new Security("billing", "", "", "", false, level, null);
        return message(draft.encode(Content.of("4111"), context, NO_SCHEMA));
    }

    @TestFactory
    Stream<DynamicTest> aConfidentialMessageInTheClearIsRefused() {
        return Stream.of("confidential", "restricted", "cosmic")
                .map(level -> DynamicTest.dynamicTest(level, () -> {
                    MessageView message = classified(level);
                    WireException refused = assertThrows(WireException.class, () -> node.open(message, "billing"));
                    assertEquals("NOT_ENCRYPTED", refused.reason());
                }));
    }

    @Test
    void whatIsNotIsHandedOutAsItCame() {
        MessageView message = classified("internal");
        assertSame(message, node.open(message, "billing").view());
    }

    @TestFactory
    Stream<DynamicTest> aRefusedAlgorithmIsNamed() {
        return Contract.vectors("signatures").each("refused_algorithms", one -> {
            MessageView message = message(one.bytes("hex"));
            WireException refused = assertThrows(WireException.class, () -> node.open(message, "billing"));
            assertEquals(one.text("error"), refused.reason());
        });
    }
}
