package speed.internal.wire;

import java.util.Set;
import java.util.regex.Pattern;

/** Codes that a service may answer with: the contract's, and its own, which travel with a prefix. */
public final class ServiceCode {
    private static final int SHOWN_CHARACTERS = 80;
    private static final String OWN_PREFIX = "app/";
    private static final Pattern OWN = Pattern.compile("[A-Z][A-Z0-9_]{0,63}");
    private static final Set<String> CONTRACTS = Set.of(
            // generated from registry_spec/codes.json by scripts/generate
            "SERVICE_NOT_FOUND",
            "ACCESS_DENIED",
            "INVALID_ARGUMENTS",
            "EXECUTION_FAILED",
            "TIMEOUT",
            "INTERNAL_ERROR",
            "SEGMENTS_LOST",
            "WITHDRAWN",
            "LEAVING",
            "REPLACED"
            // end of what is generated
            );

    private ServiceCode() {}

    /** Whether it is one of the contract's. */
    public static boolean isContracts(String code) {
        return CONTRACTS.contains(code);
    }

    /** Whether a service may have it as its own. */
    public static boolean isOwn(String code) {
        return OWN.matcher(code).matches() && !isContracts(code);
    }

    /** Why a code can be none of a service. */
    public static String refused(String code) {
        String shown = Printable.text(code.substring(0, Math.min(code.length(), SHOWN_CHARACTERS)));
        return "error code '" + shown
                + "' cannot be used: take a capital letter, then up to 63 of A-Z, 0-9 and _, or one of" + " SPEED's";
    }

    /** A code of a service's own as it travels. */
    public static String travelling(String own) {
        return OWN_PREFIX + own;
    }

    /** The code of a service in what travelled; null for any other. */
    public static String own(String travelled) {
        if (!travelled.startsWith(OWN_PREFIX)) {
            return null;
        }
        String code = travelled.substring(OWN_PREFIX.length());
        return OWN.matcher(code).matches() ? code : null;
    }
}
