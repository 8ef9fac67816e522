package speed.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HexFormat;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import speed.errors.MessageException;
import speed.internal.message.OpenedMessage;
import speed.internal.wire.Contract;
import speed.internal.wire.MessageView;

/** M-19 to M-25: the vectors of encrypted payloads. */
class EncryptionTest {
    private final Contract vectors = Contract.vectors("encryption");
    private final Guard guard = new Guard(
            MessageSecurity.NONE.withKeys(vectors.cases("keys").stream()
                    .map(one -> MessageKey.of(one.values()))
                    .toArray(MessageKey[]::new)),
            "");

    @TestFactory
    Stream<DynamicTest> anEncryptedPayloadOpens() {
        return vectors.each("valid", one -> {
            OpenedMessage opened = guard.open(MessageView.of(one.bytes("hex")), 0, "");
            assertEquals(one.text("payload_hex"), HexFormat.of().formatHex(opened.payloadBytes()));
            assertEquals(one.text("opened_by"), opened.openedBy());
        });
    }

    @TestFactory
    Stream<DynamicTest> anEncryptedPayloadThatWasAlteredIsRefusedByName() {
        return vectors.each("invalid", one -> {
            MessageView view = MessageView.of(one.bytes("hex"));
            MessageException refused = assertThrows(MessageException.class, () -> guard.open(view, 0, ""));
            assertEquals(one.text("error"), refused.code());
        });
    }
}
