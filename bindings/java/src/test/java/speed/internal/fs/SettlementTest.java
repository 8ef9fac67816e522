package speed.internal.fs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;
import speed.internal.core.Verdict;
import speed.internal.wire.Contract;
import speed.internal.wire.Keyring;

/** S-21: what a caller reads in the lane of a server that is gone or was replaced. */
class SettlementTest {
    private final Contract vectors = Contract.vectors("settled");
    private final String caller = vectors.text("source");
    private final String server = vectors.text("target");
    private final Keyring ring = new Keyring(vectors.keys("accepted_keys"));
    private int cases;

    @TempDir
    Path home;

    @TestFactory
    Stream<DynamicTest> theFilesOfALaneDecideAsTheContractSays() {
        return vectors.each("cases", one -> assertEquals(one.get("verdict"), verdict(one)));
    }

    private String verdict(Contract stated) throws IOException {
        Path root = Files.createDirectory(home.resolve(Integer.toString(++cases)));
        Path lane =
                Files.createDirectories(root.resolve(server).resolve("inbox").resolve(caller));
        for (Map.Entry<?, ?> file : stated.object("files").values().entrySet()) {
            Files.write(lane.resolve((String) file.getKey()), HexFormat.of().parseHex((String) file.getValue()));
        }
        List<Long> sequences = ((List<?>) stated.get("request"))
                .stream().map(one -> Long.parseUnsignedLong((String) one, 16)).toList();
        Verdict verdict = new Settlement(root.toString(), caller, server, ring)
                .verdict(
                        (int) stated.number("generation"),
                        sequences,
                        sequences.size(),
                        () -> !stated.text("process").equals("unknown"));
        return verdict == null
                ? "may have run"
                : switch (verdict) {
                    case NOT_BEGUN -> "not begun";
                    case REPEATABLE -> "repeatable";
                    case MAY_HAVE_RUN -> "may have run";
                };
    }
}
