package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.function.Executable;
import speed.errors.KeyFileException;
import speed.errors.WireException;

/** Identities of nodes, by the contract's vectors (I-1 to I-7). */
class NodeIdentityTest {
    private static final Contract VECTORS = Contract.vectors("identity");
    private static final byte[] SHARED = VECTORS.bytes("shared_key");

    @TestFactory
    Stream<DynamicTest> aFileHoldsTheStatedIdentity() {
        return VECTORS.each("valid", one -> {
            NodeIdentity identity = NodeIdentity.parse(utf8(one.text("text")));
            assertArrayEquals(one.bytes("signing"), identity.signing());
            assertArrayEquals(one.bytes("exchange"), identity.exchange());
            assertEquals(
                    one.get("renewed"),
                    identity.renewed().stream().map(NodeIdentityTest::hex).toList());
            assertEquals(one.text("fingerprint"), identity.fingerprint());
            assertEquals(one.get("owners"), identity.owners());
            assertArrayEquals(utf8(one.text("text")), identity.format());
        });
    }

    @TestFactory
    Stream<DynamicTest> aBrokenFileIsRefusedWithoutShowingIt() {
        return VECTORS.each("invalid", one -> {
            byte[] text = utf8(one.text("text"));
            KeyFileException error = assertThrows(KeyFileException.class, () -> NodeIdentity.parse(text));
            assertFalse(error.getMessage().contains("YGFi"), "a seed is shown");
        });
    }

    @TestFactory
    Stream<DynamicTest> aCardIsOfTheNodeThatItWasSignedFor() {
        return VECTORS.each("cards", one -> {
            NodeId node = NodeId.of(one.text("node"));
            if (one.has("error")) {
                refuses(one, () -> Card.read(one.bytes("card"), node));
                return;
            }
            assertEquals(
                    one.text("fingerprint"), Card.read(one.bytes("card"), node).fingerprint());
            assertArrayEquals(one.bytes("card"), Card.of(identity("receiver"), node));
        });
    }

    @TestFactory
    Stream<DynamicTest> bothEndsOfALinkHaveTheStatedKey() {
        NodeIdentity receiver = identity("receiver");
        return VECTORS.each("links", one -> {
            BoundLink link = new BoundLink(
                    NodeId.of(one.text("source")), NodeId.of(one.text("target")), (int) one.number("generation"), (int)
                            one.number("target_life"));
            Card card = new Card(receiver.signing(), receiver.exchange(), one.bytes("renewed"));
            BoundLink.Opened sent = link.open(identity("sender"), card, SHARED, VECTORS.bytes("ephemeral"));
            assertEquals(one.text("opening"), hex(sent.opening()));
            BoundLink.Opened received = link.accept(receiver, SHARED, sent.opening());
            assertEquals(one.text("key"), hex(sent.key()));
            assertEquals(one.text("key"), hex(received.key()));
            assertEquals(Long.parseUnsignedLong(one.text("key_id"), 16), Keyring.keyId(received.key()));
            assertEquals(one.text("fingerprint"), received.fingerprint());
        });
    }

    @TestFactory
    Stream<DynamicTest> anOpeningThatIsNotOfThisLinkIsRefused() {
        BoundLink link = new BoundLink(NodeId.of("analytics"), NodeId.of("billing"), 7, 0);
        return VECTORS.each(
                "refused_links",
                one -> refuses(one, () -> link.accept(identity("receiver"), SHARED, one.bytes("opening"))));
    }

    @TestFactory
    Stream<DynamicTest> aStatementCountsIfAKnownOwnerSignedIt() {
        NodeIdentity owner = identity("owner");
        List<String> owners = List.of(owner.fingerprint());
        return VECTORS.each("statements", one -> {
            NodeId node = NodeId.of(one.text("node"));
            if (one.has("error")) {
                refuses(one, () -> Statement.read(one.bytes("statement"), node, owners));
                return;
            }
            Statement read = Statement.read(one.bytes("statement"), node, owners);
            Statement stated = new Statement(
                    (int) one.number("kind"), node, one.text("fingerprint"), one.number("issued"), one.number("until"));
            assertEquals(stated, read);
            assertArrayEquals(one.bytes("statement"), read.signedBy(owner));
        });
    }

    @TestFactory
    Stream<DynamicTest> aNameIsJudgedByGrantsStatementsAndWhatIsRemembered() {
        return VECTORS.each("judged", one -> {
            List<String> grants = ((List<?>) one.get("grants"))
                    .stream().map(String.class::cast).toList();
            Evidence evidence = new Evidence(
                    grants,
                    one.has("known") ? known(one.object("known")) : null,
                    one.has("statement") ? statement(one.object("statement")) : null,
                    (Boolean) one.get("has_owners"),
                    one.number("now"));
            String verdict = evidence.judge(one.text("fingerprint")).name().toLowerCase(Locale.ROOT);
            assertEquals(one.text("verdict"), verdict);
        });
    }

    @Test
    void anIdentityShowsNoSecretAndNoNameOfAHost() {
        NodeIdentity identity = identity("sender");
        assertEquals("Identity " + identity.fingerprint(), identity.toString());
        assertFalse(Hosts.isHost(identity.fingerprint()));
    }

    private static Evidence.KnownIdentity known(Contract one) {
        return new Evidence.KnownIdentity(
                one.text("fingerprint"), one.number("issued"), (Boolean) one.get("is_revoked"));
    }

    private static Statement statement(Contract one) {
        return new Statement(
                (int) one.number("kind"),
                NodeId.of("analytics"),
                one.text("fingerprint"),
                one.number("issued"),
                one.number("until"));
    }

    private static NodeIdentity identity(String who) {
        return NodeIdentity.parse(utf8(VECTORS.text(who)));
    }

    private static void refuses(Contract one, Executable read) {
        assertEquals(one.text("error"), assertThrows(WireException.class, read).reason());
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
