package speed.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static speed.message.Written.AT_MS;
import static speed.message.Written.VALUE;
import static speed.message.Written.message;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import speed.errors.BadSignatureException;
import speed.errors.KeyRefusedException;
import speed.errors.NoRecipientKeyException;
import speed.errors.NotEncryptedException;
import speed.errors.StorageException;
import speed.errors.UnsignedException;
import speed.errors.WeakAlgorithmException;
import speed.errors.WireException;
import speed.internal.wire.Content;
import speed.internal.wire.MessageDraft;
import speed.internal.wire.MessageView;
import speed.internal.wire.Security;
import speed.message.MessageSecurity.Sensitivity;

/** M-31: what is told of what is done to messages, and when. */
class AuditTest {
    private final Lines lines = new Lines();
    private final MessageSecurity audited = MessageSecurity.NONE.withAudit(lines);
    private final MessageKey signer = Written.signer(Algorithm.ED25519);
    private final MessageKey reader = MessageKey.generate("reader-1", Algorithm.X25519);
    private final MessageKey other = MessageKey.generate("reader-2", Algorithm.X25519);

    /** An audit in memory, which may be full. */
    static final class Lines implements AuditLog {
        final List<Map<String, Object>> all = new ArrayList<>();
        boolean isFull;

        @Override
        public void write(Map<String, Object> line) {
            if (isFull) {
                throw new StorageException("the audit log is full; nothing was done", 0);
            }
            all.add(line);
        }

        @Override
        public void close() {}

        /** Operations and outcomes. */
        List<String> outcomes() {
            return all.stream()
                    .map(line -> line.get("operation") + " " + line.get("outcome"))
                    .toList();
        }

        Object last(String field) {
            return all.get(all.size() - 1).get(field);
        }
    }

    private void open(MessageSecurity security, MessageView view) {
        new Guard(security, "archive").open(view, AT_MS, "till");
    }

    private static MessageView saying(Security security, String topic) {
        MessageDraft draft = Written.draft();
        MessageDraft named = new MessageDraft(
                draft.messageId(), topic, draft.namespace(), AT_MS, "billing", MessageDraft.Options.NONE);
        return MessageView.of(named.encode(Content.of(VALUE), security, speed.internal.wire.Schema.NONE));
    }

    // --- what is written ---

    @Test
    void whatIsEncryptedAndSignedIsTwoLinesThatNameTheirKeys() {
        message(
                audited,
                VALUE,
                Protection.NONE.encryptTo(reader, other).signWith(signer).classified("restricted"));
        assertEquals(List.of("encrypt ok", "sign ok"), lines.outcomes());
        assertEquals(
                "{operation=encrypt, outcome=ok, algorithm=x25519-chacha20-poly1305, key_id=reader-1,reader-2,"
                        + " message_id=id-1, source=billing, topic=orders.created, namespace=default,"
                        + " classification=restricted}",
                lines.all.get(0).toString());
        assertEquals("signer-1", lines.last("key_id"));
    }

    @Test
    void whatIsOnlyCompressedIsNotAudited() {
        message(audited, VALUE, Protection.NONE.compressed("gzip"));
        assertEquals(List.of(), lines.outcomes());
    }

    @Test
    void whatIsRefusedToBeWrittenIsOneLineWithItsKeys() {
        MessageKey bound = signer.withBounds(KeyBounds.NONE.withTopics("stock.*"));
        assertThrows(
                KeyRefusedException.class,
                () -> message(audited, VALUE, Protection.NONE.encryptTo(reader).signWith(bound)));
        assertEquals(List.of("send KEY_REFUSED"), lines.outcomes());
        assertEquals("x25519-chacha20-poly1305,ed25519", lines.last("algorithm"));
        assertEquals("reader-1,signer-1", lines.last("key_id"));
    }

    @Test
    void aConfidentialMessageInTheClearIsAudited() {
        assertThrows(
                NotEncryptedException.class, () -> message(audited, VALUE, Protection.NONE.classified("confidential")));
        assertEquals(List.of("send NOT_ENCRYPTED"), lines.outcomes());
        assertEquals("confidential", lines.last("classification"));
    }

    @Test
    void whatCannotBeAuditedIsNotWritten() {
        lines.isFull = true;
        assertThrows(StorageException.class, () -> message(audited, VALUE, Protection.NONE.signWith(signer)));
    }

    // --- what is received ---

    @Test
    void whatIsVerifiedAndOpenedIsTwoLinesThatNameBothNodes() {
        MessageView view =
                message(VALUE, Protection.NONE.encryptTo(reader, other).signWith(signer));
        open(audited.withKeys(other).withPolicy(SignaturePolicy.REQUIRE, signer), view);
        assertEquals(
                "[{operation=verify, outcome=ok, algorithm=ed25519, key_id=signer-1, message_id=id-1, source=till,"
                        + " reader=archive, topic=orders.created, namespace=default, publisher=billing},"
                        + " {operation=decrypt, outcome=ok, algorithm=x25519-chacha20-poly1305, key_id=reader-2,"
                        + " message_id=id-1, source=till, reader=archive, topic=orders.created, namespace=default,"
                        + " publisher=billing}]",
                lines.all.toString());
    }

    @Test
    void aSignatureThatNobodyLooksAtIsNotAudited() {
        open(audited, message(VALUE, Protection.NONE.signWith(signer)));
        assertEquals(List.of(), lines.outcomes());
    }

    @Test
    void aRefusedSignatureIsOneLineWithTheKeyThatItNames() {
        byte[] altered = message(VALUE, Protection.NONE.signWith(signer)).bytes();
        altered[altered.length - 1] ^= 1;
        MessageSecurity requiring = audited.withPolicy(SignaturePolicy.REQUIRE, signer);
        assertThrows(BadSignatureException.class, () -> open(requiring, MessageView.of(altered)));
        assertThrows(UnsignedException.class, () -> open(requiring, message(VALUE, Protection.NONE)));
        assertEquals(List.of("verify BAD_SIGNATURE", "verify UNSIGNED"), lines.outcomes());
        assertEquals("signer-1", lines.all.get(0).get("key_id"));
    }

    @Test
    void aWeakAlgorithmOfASignatureIsAuditedThoughNobodyLooksAtIt() {
        MessageView weak = saying(new Security("billing", "", "md5", "k", false, "", null), "orders.created");
        assertThrows(WeakAlgorithmException.class, () -> open(audited, weak));
        assertEquals(List.of("verify WEAK_ALGORITHM"), lines.outcomes());
    }

    @Test
    void aPayloadForOthersIsOneLineWithTheirKeys() {
        MessageView view = message(VALUE, Protection.NONE.encryptTo(reader, other));
        assertThrows(NoRecipientKeyException.class, () -> open(audited, view));
        assertEquals(List.of("decrypt NO_RECIPIENT_KEY"), lines.outcomes());
        assertEquals("reader-1,reader-2", lines.last("key_id"));
    }

    @Test
    void whatIsRefusedForItsTimeIsAuditedByItsWireCode() {
        MessageSecurity verifying = audited.withPolicy(SignaturePolicy.VERIFY, signer);
        Guard guard = new Guard(verifying, "archive");
        assertThrows(
                WireException.class,
                () -> guard.open(message(VALUE, Protection.NONE.signWith(signer)), AT_MS - 400_000, "till"));
        assertEquals(List.of("verify ok", "receive BAD_MESSAGE"), lines.outcomes());
        assertEquals("", lines.last("key_id"));
    }

    @Test
    void aRestrictedMessageIsAuditedBeforeItIsHandedOut() {
        open(
                audited.withKeys(reader),
                message(VALUE, Protection.NONE.encryptTo(reader).classified("restricted")));
        assertEquals(List.of("decrypt ok", "access ok"), lines.outcomes());
    }

    @Test
    void aClassThatNobodyKnowsCountsAsRestricted() {
        assertTrue(Sensitivity.isRestricted("cosmic"));
        assertFalse(Sensitivity.isRestricted(""));
    }

    @Test
    void aMessageWithPersonalDataIsAuditedBeforeItIsHandedOut() {
        open(audited, message(VALUE, Protection.NONE.withPii()));
        assertEquals(
                "[{operation=access, outcome=ok, algorithm=, key_id=, message_id=id-1, source=till, reader=archive,"
                        + " topic=orders.created, namespace=default, publisher=billing, contains_pii=true}]",
                lines.all.toString());
    }

    @Test
    void whatCannotBeAuditedIsNotHandedOut() {
        lines.isFull = true;
        assertThrows(StorageException.class, () -> open(audited, message(VALUE, Protection.NONE.withPii())));
    }

    @Test
    void whatIsNeitherPersonalNorRestrictedIsNotAudited() {
        open(audited, message(VALUE, Protection.NONE.classified("internal")));
        assertEquals(List.of(), lines.outcomes());
    }

    @Test
    void neitherKeysNorPayloadsAreAudited() {
        open(
                audited.withKeys(reader),
                message(audited, VALUE, Protection.NONE.encryptTo(reader).signWith(signer)));
        for (String hidden : List.of("4111", signer.encodedSecret(), reader.encodedSecret(), reader.encodedPublic())) {
            assertFalse(lines.all.toString().contains(hidden));
        }
    }

    @Test
    void longTextsAreCutAndNoneOfTheirCharactersIsHalved() {
        String publisher = "\uD83D\uDE00".repeat(200);
        open(audited, saying(new Security(publisher, "", "", "", true, "", null), "orders.created"));
        assertEquals(publisher.substring(0, 2 * 128), lines.last("publisher"));
    }
}
