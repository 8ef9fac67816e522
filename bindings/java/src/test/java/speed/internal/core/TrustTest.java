package speed.internal.core;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import speed.internal.wire.Contract;

/** who can change a directory is told by its owner, mode and access lists. */
class TrustTest {
    private static final Contract VECTORS = Contract.vectors("trust");

    private static Trust.Step step(Contract one) {
        List<byte[]> lists = ((List<?>) one.get("lists"))
                .stream().map(list -> HexFormat.of().parseHex((String) list)).toList();
        return new Trust.Step(
                (int) one.number("owner"), (int) one.number("group"), Integer.parseInt(one.text("mode"), 8), lists);
    }

    private static Trust.Who who(Contract one) {
        Set<Integer> groups = ((List<?>) one.get("groups"))
                .stream().map(group -> ((Long) group).intValue()).collect(Collectors.toSet());
        return new Trust.Who((int) one.number("user"), groups);
    }

    private static Trust verdict(Contract one) {
        return Trust.valueOf(one.text("verdict").toUpperCase(Locale.ROOT));
    }

    @TestFactory
    Stream<DynamicTest> aStepOfAPathIsTrustedIfOnlyRootAndThisUserCanChangeIt() {
        return VECTORS.each("steps", one -> assertEquals(verdict(one), Trust.ofStep(step(one), who(one))));
    }

    @TestFactory
    Stream<DynamicTest> aRootIsPrivateOrOfTheRequestedGroup() {
        return VECTORS.each(
                "roots",
                one -> assertEquals(verdict(one), Trust.ofRoot(step(one), who(one), (Boolean) one.get("inside"))));
    }
}
