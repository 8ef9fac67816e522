package speed.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import speed.errors.KeyRefusedException;
import speed.errors.MessageException;
import speed.internal.wire.Contract;
import speed.internal.wire.MessageView;
import speed.internal.wire.SignedParts;

/** M-16 to M-18: signatures over exact bytes. */
class SignaturesTest {
    private final Contract vectors = Contract.vectors("signatures");
    private final List<MessageKey> keys = vectors.cases("trusted").stream()
            .map(one -> MessageKey.of(one.values()))
            .toList();
    private final TrustedKeys trusted = new TrustedKeys(keys);

    @TestFactory
    Stream<DynamicTest> aSignatureThatHoldsIsAccepted() {
        return vectors.each("valid", one -> {
            byte[] message = one.bytes("hex");
            MessageKey signer = trusted.check(MessageView.of(message), SignaturePolicy.REQUIRE, FipsMode.OFF);
            assertEquals(one.text("signed_by"), signer.id());
            byte[] input = new SignedParts(message).signingInput();
            assertEquals(one.text("input_hex"), HexFormat.of().formatHex(input));
        });
    }

    @TestFactory
    Stream<DynamicTest> aSignatureThatDoesNotHoldIsRefusedByName() {
        return vectors.each("invalid", one -> {
            MessageView view = MessageView.of(one.bytes("hex"));
            MessageException refused = assertThrows(
                    MessageException.class, () -> trusted.check(view, SignaturePolicy.REQUIRE, FipsMode.OFF));
            assertEquals(one.text("error"), refused.code());
        });
    }

    @TestFactory
    Stream<DynamicTest> aRefusedAlgorithmIsNamedWhateverThePolicy() {
        Guard lenient = new Guard(MessageSecurity.NONE, "");
        Guard verifying = new Guard(MessageSecurity.NONE.withPolicy(SignaturePolicy.VERIFY, keys.get(0)), "");
        return vectors.each("refused_algorithms", one -> {
            MessageView view = MessageView.of(one.bytes("hex"));
            for (Guard guard : List.of(lenient, verifying)) {
                MessageException refused =
                        assertThrows(MessageException.class, () -> guard.open(view, view.publishedAtMs(), ""));
                assertEquals(one.text("error"), refused.code());
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> aPublicKeyThatProvesNothingIsRefused() {
        return vectors.cases("refused_keys").stream()
                .map(one -> DynamicTest.dynamicTest(
                        one.text("public"),
                        () -> assertThrows(KeyRefusedException.class, () -> MessageKey.of(one.values()))));
    }
}
