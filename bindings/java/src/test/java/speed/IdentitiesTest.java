package speed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import speed.errors.AccessDeniedException;
import speed.errors.CallTimeoutException;
import speed.errors.ConfigurationException;
import speed.errors.IdentityChangedException;
import speed.errors.IdentityCopiedException;
import speed.errors.IdentityException;
import speed.errors.IdentityExpiredException;
import speed.errors.IdentityMissingException;
import speed.errors.IdentityRevokedException;
import speed.errors.IdentityUnvouchedException;
import speed.errors.InvalidNameException;
import speed.errors.KeyFileException;
import speed.errors.WireException;
import speed.internal.fs.KeyFiles;
import speed.internal.wire.Block;
import speed.internal.wire.BoundLink;
import speed.internal.wire.Header;
import speed.internal.wire.Header.EnvelopeType;
import speed.internal.wire.Header.Sequence;
import speed.internal.wire.Keyring;
import speed.internal.wire.LinkOpener;
import speed.internal.wire.LinkSealer;
import speed.internal.wire.Names;
import speed.internal.wire.NodeId;
import speed.internal.wire.NodeIdentity;
import speed.internal.wire.Statement;
import speed.options.CallOptions;
import speed.options.SendOptions;
import speed.options.ServiceOptions;
import speed.tool.BenchRoot;

/** Nodes with identities: links that a holder of the shared key alone can neither read nor write (I-1 to I-9). */
@Timeout(300)
class IdentitiesTest {
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final SendOptions CONFIRMED =
            SendOptions.DEFAULT.withAcknowledgement().withTimeout(Duration.ofSeconds(60));

    @TempDir
    Path secrets;

    private BenchRoot root;
    private final List<Node> nodes = new ArrayList<>();

    @BeforeEach
    void open() throws IOException {
        root = new BenchRoot(null);
    }

    @AfterEach
    void close() throws IOException {
        nodes.forEach(Node::close);
        root.close();
    }

    // --- what the tests are made of ---

    private static byte[] drawn() {
        byte[] secret = new byte[32];
        RANDOM.nextBytes(secret);
        return secret;
    }

    /** The file of a new identity. */
    private Path identity(String name, String... owners) throws IOException {
        NodeIdentity made = new NodeIdentity(drawn(), List.of(drawn()), List.of(owners));
        Path file = Files.createFile(
                secrets.resolve(name + ".identity"),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        return Files.write(file, made.format());
    }

    private static NodeIdentity read(Path identity) throws IOException {
        return NodeIdentity.parse(Files.readAllBytes(identity));
    }

    private static String fingerprint(Path identity) throws IOException {
        return read(identity).fingerprint();
    }

    /** A node that is closed with the test, with an identity (null for none). */
    private Node node(String name, Path identity, String... allowed) {
        Node.Builder builder = root.builder(name, allowed);
        Node node = (identity == null ? builder : builder.identity(identity)).open();
        nodes.add(node);
        return node;
    }

    /** Who called, and the size of what was given. */
    private static Node serving(Node node) {
        node.register(
                "who",
                request -> List.of(
                        request.caller(),
                        request.callerIdentity(),
                        request.getOr("given", String.class, "").length()));
        return node;
    }

    private static List<Object> called(String name, String fingerprint, long size) {
        return List.of(name, fingerprint, size);
    }

    private static Object who(Node caller) {
        return caller.call("billing", "who", Map.of());
    }

    private static CallOptions within(int seconds) {
        return CallOptions.DEFAULT.withTimeout(Duration.ofSeconds(seconds));
    }

    private static long counter(Node node, String name) {
        Object counted = ((Map<?, ?>) node.stats().get("counters")).get(name);
        return counted == null ? 0 : (Long) counted;
    }

    private static void eventually(BooleanSupplier holds) throws InterruptedException {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (!holds.getAsBoolean() && System.nanoTime() < deadline) {
            Thread.sleep(20);
        }
        assertTrue(holds.getAsBoolean());
    }

    private Path lane(String target, String source) {
        return root.path().resolve(target).resolve("inbox").resolve(source);
    }

    private static List<Path> filesOf(Path lane, String end) throws IOException {
        try (Stream<Path> files = Files.list(lane)) {
            return files.filter(file -> file.toString().endsWith(end)).sorted().toList();
        }
    }

    private Keyring ring() {
        return KeyFiles.load(root.path().resolve("speed.key").toString());
    }

    // --- who called ---

    @Test
    void aServiceIsToldWhichIdentityCalled() throws IOException {
        serving(node("billing", identity("billing"), "analytics", "plain"));
        Path mine = identity("analytics");
        assertEquals(called("analytics", fingerprint(mine), 0), who(node("analytics", mine)));
        assertEquals(called("plain", "", 0), who(node("plain", null)));
    }

    @Test
    void aHandlerIsToldWhichIdentitySentAMessage() throws Exception {
        Node billing = node("billing", identity("billing"), "analytics", "plain");
        BlockingQueue<List<Object>> seen = new LinkedBlockingQueue<>();
        billing.onMessage(
                one -> seen.add(called(one.source(), one.senderIdentity(), ((String) one.payload()).length())));
        billing.subscribe("orders.*", one -> seen.add(called(one.source(), one.senderIdentity(), 0)));
        Path mine = identity("analytics");
        Node analytics = node("analytics", mine);
        analytics.send("billing", "small");
        analytics.publish("orders.new", 1);
        analytics.segment("billing", 100, 0);
        analytics.send("billing", "large".repeat(100));
        for (long size : new long[] {5, 0, 500}) {
            assertEquals(called("analytics", fingerprint(mine), size), seen.poll(60, TimeUnit.SECONDS));
        }
        node("plain", null).send("billing", "plain");
        assertEquals(called("plain", "", 5), seen.poll(60, TimeUnit.SECONDS));
    }

    @Test
    void aGrantOfAnIdentityIsForNoOther() throws IOException {
        Path mine = identity("analytics");
        Node billing = serving(node("billing", identity("billing"), "analytics@" + fingerprint(mine)));
        assertEquals(List.of("analytics@" + fingerprint(mine)), billing.allowed());
        try (Node analytics = node("analytics", mine)) {
            assertEquals(called("analytics", fingerprint(mine), 0), who(analytics));
        }
        for (Path other : Arrays.asList(null, identity("other"))) {
            try (Node analytics = node("analytics", other)) {
                assertThrows(AccessDeniedException.class, () -> who(analytics));
            }
        }
    }

    @Test
    void aDenialEndsTheGrantOfAnIdentity() throws IOException {
        Path mine = identity("analytics");
        Node billing = serving(node("billing", identity("billing")));
        Node analytics = node("analytics", mine);
        billing.allow("analytics@" + fingerprint(mine));
        who(analytics);
        billing.deny("analytics");
        assertEquals(List.of(), billing.allowed());
        assertThrows(AccessDeniedException.class, () -> who(analytics));
    }

    @Test
    void whoLooksAtNodesSeesTheirIdentities() throws IOException {
        Path mine = identity("billing");
        String other = "analytics@" + "ab".repeat(20);
        NodeInfo seen = node("billing", mine, other).nodes().get(0);
        assertEquals(fingerprint(mine), seen.identity());
        assertEquals(List.of(other), seen.identities());
        assertEquals(List.of(), seen.allow());
        assertTrue(seen.allows("analytics"));
    }

    // --- the shared key alone ---

    @Test
    void whoHasTheSharedKeyAloneReadsNothing() throws IOException {
        serving(node("billing", identity("billing"), "analytics"));
        node("analytics", identity("analytics")).call("billing", "who", Map.of("given", "a secret"));
        for (List<String> link : List.of(List.of("analytics", "billing"), List.of("billing", "analytics"))) {
            Path file = filesOf(lane(link.get(1), link.get(0)), ".lane").get(0);
            Block envelope = Block.of(Files.readAllBytes(file));
            Header header = header(file);
            LinkOpener opener = new LinkOpener(ring(), NodeId.of(link.get(0)), NodeId.of(link.get(1)));
            WireException refused = assertThrows(WireException.class, () -> opener.openInPlace(header, envelope, 0));
            assertEquals("UNKNOWN_KEY", refused.reason());
        }
    }

    @Test
    void whoHasTheSharedKeyAloneWritesNothing() throws IOException, InterruptedException {
        Node billing = node("billing", identity("billing"), "analytics");
        List<Object> handled = Collections.synchronizedList(new ArrayList<>());
        billing.onMessage(message -> handled.add(message.payload()));
        Node analytics = node("analytics", identity("analytics"));
        analytics.send("billing", "first", CONFIRMED);
        append(lane("billing", "analytics"), ring(), new byte[10]);
        eventually(() -> counter(billing, "unauthorised") == 1);
        assertEquals(List.of("first"), handled);
    }

    @Test
    void anOpeningThatNoIdentitySignedOpensNothingAndHindersNoOther() throws Exception {
        Node billing = node("billing", identity("billing"), "analytics");
        List<Object> handled = Collections.synchronizedList(new ArrayList<>());
        billing.onMessage(message -> handled.add(message.payload()));
        Node analytics = node("analytics", identity("analytics"));
        analytics.send("billing", "first", CONFIRMED);
        Path lane = lane("billing", "analytics");
        byte[] opening = Files.readAllBytes(filesOf(lane, ".opening").get(0));
        opening[BoundLink.BYTES - 1] ^= 1;
        byte[] key = drawn();
        Files.write(lane.resolve(Names.openingName(new Names.OpeningId(1, Keyring.keyId(key)))), opening);
        append(lane, new Keyring(List.of(key)), new byte[10]);
        analytics.send("billing", "second", CONFIRMED);
        assertEquals(List.of("first", "second"), handled);
        eventually(() -> counter(billing, "damaged_bad_identity") == 1);
    }

    /** Appends what a holder of these keys seals as the next envelope of a lane. */
    private static void append(Path lane, Keyring keys, byte[] payload) throws IOException {
        Path file = filesOf(lane, ".lane").get(0);
        Header last = header(file);
        Block forged = new Block(1 << 10);
        LinkSealer sealer = new LinkSealer(
                keys, NodeId.of("analytics"), NodeId.of("billing"), last.generation(), RANDOM::nextBytes);
        long next = (last.sequence() & Sequence.MAX_COUNTER) + 1;
        int bytes = sealer.seal(forged, 0, EnvelopeType.MESSAGE, 0, next, last.timestampMs(), payload);
        Files.write(file, forged.copy(0, bytes), StandardOpenOption.APPEND);
    }

    private static Header header(Path file) throws IOException {
        Block data = Block.of(Files.readAllBytes(file));
        return Header.parse(data.bytes, 0, data.size);
    }

    // --- who is who ---

    @Test
    void anIdentityThatChangedIsRefusedByBothSides() throws IOException {
        Node billing = serving(node("billing", identity("billing"), "analytics"));
        try (Node analytics = node("analytics", identity("first"), "billing")) {
            who(analytics);
        }
        try (Node analytics = node("analytics", identity("second"), "billing")) {
            IdentityException refused = assertThrows(
                    IdentityChangedException.class, () -> billing.send("analytics", "for the first alone"));
            assertEquals("IDENTITY_CHANGED", refused.code());
            assertThrows(CallTimeoutException.class, () -> analytics.call("billing", "who", Map.of(), within(1)));
        }
        assertTrue(counter(billing, "unauthorised") >= 1);
    }

    @Test
    void aKnownNameIsNotMetWithoutItsIdentity() throws IOException {
        Node billing = serving(node("billing", identity("billing"), "analytics"));
        try (Node analytics = node("analytics", identity("analytics"), "billing")) {
            who(analytics);
        }
        Node plain = node("analytics", null, "billing");
        assertThrows(IdentityMissingException.class, () -> billing.send("analytics", "in the clear of all"));
        assertThrows(CallTimeoutException.class, () -> plain.call("billing", "who", Map.of(), within(1)));
    }

    @Test
    void anIdentityLivesUnderOneName() throws IOException {
        Path mine = identity("analytics");
        node("analytics", mine);
        assertThrows(IdentityCopiedException.class, () -> node("billing", mine));
        assertFalse(Files.exists(root.path().resolve("speed_registry/billing.node")));
    }

    @Test
    void aNameThatAnOwnerVouchesForIsBelievedUntilTheEndOrARevocation() throws Exception {
        NodeIdentity owner = read(identity("owner"));
        Path mine = identity("analytics");
        Node billing = node("billing", identity("billing", owner.fingerprint()), "analytics");
        node("analytics", mine, "billing");
        long now = System.currentTimeMillis() / 1000;
        assertThrows(IdentityUnvouchedException.class, () -> billing.ping("analytics"));
        state(owner, mine, Statement.VOUCHED, now - 10, now - 1);
        assertThrows(IdentityExpiredException.class, () -> billing.ping("analytics"));
        state(owner, mine, Statement.VOUCHED, now, 0);
        billing.ping("analytics");
        state(owner, mine, Statement.REVOKED, now + 1, 0);
        assertThrows(IdentityRevokedException.class, () -> billing.ping("analytics"));
        state(owner, mine, Statement.VOUCHED, now, 0); // an old statement put back
        assertThrows(IdentityRevokedException.class, () -> billing.ping("analytics"));
    }

    private void state(NodeIdentity owner, Path whose, int kind, long issued, long until) throws Exception {
        Statement made = new Statement(kind, NodeId.of("analytics"), fingerprint(whose), issued, until);
        Path directory = Files.createDirectories(root.path().resolve("speed_registry/.identities"));
        Files.write(directory.resolve("analytics"), made.signedBy(owner));
        Thread.sleep(1_100); // a verdict is believed for a second
    }

    @Test
    void whatIsRememberedOutlivesTheNode() throws IOException {
        Path mine = identity("billing");
        Path known = secrets.resolve("billing.identity.known");
        Path of = identity("analytics");
        try (Node billing = serving(node("billing", mine, "analytics"));
                Node analytics = node("analytics", of)) {
            who(analytics);
            assertNotNull(billing);
        }
        assertEquals("SPEED-KNOWN-V1\nanalytics " + fingerprint(of) + " 0\n", Files.readString(known));
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(known)));
        Node again = node("billing", mine);
        node("analytics", identity("another"), "billing");
        assertThrows(IdentityChangedException.class, () -> again.send("analytics", 1));
        again.close();
        Files.writeString(known, "nonsense");
        KeyFileException damaged = assertThrows(KeyFileException.class, () -> node("billing", mine));
        assertTrue(damaged.getMessage().contains("damaged"), damaged.getMessage());
    }

    /** As of a credential, whose directory is not to be written to: a directory stands where the file would be. */
    @Test
    void whoCannotBeRememberedIsNotMet() throws IOException {
        Files.createDirectory(secrets.resolve(".billing.identity.known.lock"));
        Node billing = node("billing", identity("billing"), "analytics");
        node("analytics", identity("analytics"), "billing");
        assertThrows(IdentityUnvouchedException.class, () -> billing.ping("analytics"));
        assertThrows(IdentityUnvouchedException.class, () -> billing.ping("analytics"));
    }

    // --- lives, keys, sizes ---

    @Test
    void whatWasAcceptedIsHandledByTheNextLifeWithTheSameIdentity() throws Exception {
        Path mine = identity("billing");
        Node first = node("billing", mine, "analytics");
        Node analytics = node("analytics", identity("analytics"));
        for (String payload : List.of("one", "two")) {
            analytics.send("billing", payload);
        }
        first.close();
        analytics.close();
        List<Object> handled = Collections.synchronizedList(new ArrayList<>());
        node("billing", mine, "analytics").onMessage(message -> handled.add(message.payload()));
        eventually(() -> handled.equals(List.of("one", "two")));
    }

    @Test
    void linksGoOnWhenTheSharedKeyChanges() throws Exception {
        serving(opened(root.builder("billing", "analytics")
                .identity(identity("billing"))
                .lease(Duration.ofSeconds(20), Duration.ofMillis(200))));
        Node analytics = opened(root.builder("analytics")
                .identity(identity("analytics"))
                .lease(Duration.ofSeconds(20), Duration.ofMillis(200)));
        Object before = who(analytics);
        Path file = root.path().resolve("speed.key");
        String[] lines = Files.readString(file).split("\n\n");
        byte[] added = drawn();
        String line = Base64.getEncoder().encodeToString(added) + "\n";
        Files.writeString(file, lines[0] + "\n\n" + lines[1] + line);
        eventually(() -> accepts("billing", added) && accepts("analytics", added));
        Files.writeString(file, lines[0] + "\n\n" + line + lines[1]);
        eventually(() -> {
            assertEquals(before, who(analytics));
            return countOpenings() >= 2;
        });
    }

    @Test
    void aRenewedExchangeKeyIsTakenWhileTheNodeRuns() throws Exception {
        Path mine = identity("billing");
        serving(opened(root.builder("billing", "analytics")
                .identity(mine)
                .lease(Duration.ofSeconds(20), Duration.ofMillis(100))));
        Node analytics = node("analytics", identity("analytics"));
        Object before = who(analytics);
        String added = "exchange " + Base64.getEncoder().encodeToString(drawn()) + "\n";
        Files.writeString(mine, Files.readString(mine).replaceFirst("exchange", added + "exchange"));
        eventually(() -> {
            assertEquals(before, who(analytics));
            return countOpenings() >= 2;
        });
    }

    @Test
    void anotherIdentityInTheFileChangesNothingUntilTheNextStart() throws Exception {
        Path mine = identity("billing");
        String expected = fingerprint(mine);
        Node billing = serving(opened(root.builder("billing", "analytics")
                .identity(mine)
                .lease(Duration.ofSeconds(20), Duration.ofMillis(100))));
        Node analytics = node("analytics", identity("analytics"));
        Object before = who(analytics);
        Files.write(mine, Files.readAllBytes(identity("other")));
        eventually(() -> counter(billing, "key_files_refused") > 0);
        assertEquals(before, who(analytics));
        assertEquals(
                expected,
                billing.nodes().stream()
                        .filter(node -> node.name().equals("billing"))
                        .findFirst()
                        .get()
                        .identity());
    }

    private int countOpenings() {
        try {
            return filesOf(lane("billing", "analytics"), ".opening").size();
        } catch (IOException gone) {
            return 0;
        }
    }

    /** Whether a node says that it takes what this key seals. */
    private boolean accepts(String node, byte[] key) {
        try {
            String entry = Files.readString(root.path().resolve("speed_registry/" + node + ".node"));
            return entry.contains(HexFormat.of().toHexDigits(Keyring.keyId(key)));
        } catch (IOException gone) {
            return false;
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1 << 20, 80 << 20})
    void largePayloadsComeByABoundLink(int size) throws IOException {
        Path mine = identity("analytics");
        serving(node("billing", identity("billing"), "analytics"));
        Object answer = node("analytics", mine).call("billing", "who", Map.of("given", "x".repeat(size)), within(60));
        assertEquals(called("analytics", fingerprint(mine), size), answer);
    }

    @Test
    void linksAreBoundWhereLanesArePolledToo() throws IOException {
        Path mine = identity("analytics");
        serving(opened(root.builder("billing", "analytics").polling().identity(identity("billing"))));
        Node analytics = opened(root.builder("analytics").polling().identity(mine));
        assertEquals(called("analytics", fingerprint(mine), 0), who(analytics));
        assertEquals(1, filesOf(lane("billing", "analytics"), ".opening").size());
    }

    @Test
    void whatIsForOneLifeOfAnEphemeralNodeOpensInThatLife() throws IOException {
        Path mine = identity("billing");
        Path caller = identity("analytics");
        Node analytics = node("analytics", caller);
        for (int life = 0; life < 2; life++) {
            try (Node billing = serving(root.builder("billing", "analytics")
                    .ephemeral()
                    .identity(mine)
                    .open())) {
                assertEquals(called("analytics", fingerprint(caller), 0), who(analytics));
                assertNotNull(billing);
            }
        }
    }

    private Node opened(Node.Builder builder) {
        Node node = builder.open();
        nodes.add(node);
        return node;
    }

    @Test
    void openingsGoWithTheFilesOfTheirGeneration() throws IOException {
        Path mine = identity("analytics");
        serving(node("billing", identity("billing"), "analytics"));
        for (int life = 0; life < 3; life++) {
            try (Node analytics = node("analytics", mine)) {
                who(analytics);
            }
        }
        List<String> found = filesOf(lane("billing", "analytics"), ".opening").stream()
                .map(file -> file.getFileName().toString().substring(0, 6))
                .toList();
        assertTrue(List.of("000002", "000003").containsAll(found), found.toString());
    }

    @Test
    void aNodeWithoutAnIdentityLeavesOpeningsWhereTheyLie() throws Exception {
        Path mine = identity("billing");
        try (Node billing = serving(node("billing", mine, "analytics"));
                Node analytics = node("analytics", identity("analytics"))) {
            who(analytics);
            assertNotNull(billing);
        }
        Path opening = filesOf(lane("billing", "analytics"), ".opening").get(0);
        Node plain = serving(node("billing", null, "plain"));
        assertInstanceOf(List.class, who(node("plain", null)));
        Thread.sleep(500); // some scans
        assertTrue(Files.exists(opening));
        assertEquals(0, counter(plain, "foreign_files"));
    }

    // --- what is refused at once ---

    @Test
    void aNodeWithoutAnIdentityGrantsNone() throws IOException {
        String grant = "analytics@" + "ab".repeat(20);
        assertThrows(ConfigurationException.class, () -> node("billing", null, grant));
        Node billing = node("billing", null);
        assertThrows(ConfigurationException.class, () -> billing.allow(grant));
        assertEquals(List.of(), billing.allowed());
    }

    @Test
    void aServiceGrantsNoIdentity() throws IOException {
        Node billing = node("billing", identity("billing"));
        ServiceOptions options = ServiceOptions.DEFAULT.withAllow("analytics@" + "ab".repeat(20));
        assertThrows(InvalidNameException.class, () -> billing.register("who", request -> 1, options));
    }

    @Test
    void aFileThatOthersCanReadIsNoIdentity() throws IOException {
        Path mine = identity("billing");
        Files.setPosixFilePermissions(mine, PosixFilePermissions.fromString("rw-r-----"));
        KeyFileException refused = assertThrows(KeyFileException.class, () -> node("billing", mine));
        assertTrue(refused.getMessage().contains("chmod 600"), refused.getMessage());
    }
}
