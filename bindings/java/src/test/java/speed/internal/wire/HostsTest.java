package speed.internal.wire;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import speed.errors.InvalidNameException;

/** Names of other hosts, by the contract's vectors (H-1, H-9). */
class HostsTest {
    private static final Contract VECTORS = Contract.vectors("hosts");

    @TestFactory
    Stream<DynamicTest> aHostHasANameOfLettersDigitsHyphensAndUnderscores() {
        return VECTORS.each("names", one -> assertEquals(one.get("valid"), Hosts.isHost(one.text("name"))));
    }

    @TestFactory
    Stream<DynamicTest> aPatternNamesOneHost() {
        return VECTORS.each("patterns", one -> {
            String pattern = one.text("pattern");
            if (!Hosts.isRemote(pattern)) {
                return; // a grant of this root, judged as such
            }
            if (Boolean.TRUE.equals(one.get("valid"))) {
                assertDoesNotThrow(() -> Hosts.localGrant(pattern));
            } else {
                assertThrows(InvalidNameException.class, () -> Hosts.localGrant(pattern));
            }
        });
    }

    @TestFactory
    Stream<DynamicTest> aGrantIsAboutStandIns() {
        return VECTORS.each("grants", one -> assertEquals(one.text("local"), Hosts.localGrant(one.text("grant"))));
    }

    @Test
    void aNodeOfAHostHasBothNames() {
        assertEquals("billing@hostb", Hosts.checkRemote("billing@hostb"));
        for (String name : new String[] {"billing", "billing@", "@hostb", "a@b@c", "billing@host b", "*@hostb"}) {
            assertThrows(InvalidNameException.class, () -> Hosts.checkRemote(name), name);
        }
    }
}
