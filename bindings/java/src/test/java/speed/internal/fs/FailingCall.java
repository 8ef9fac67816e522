package speed.internal.fs;

import com.sun.jna.Callback;
import com.sun.jna.CallbackReference;
import com.sun.jna.Library;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import com.sun.jna.SymbolProvider;
import java.util.Map;
import java.util.function.BooleanSupplier;

/** A function of the C library that fails for a while, with an error that no filesystem gives to order. */
final class FailingCall {
    /** What is done meanwhile. */
    interface Action {
        void run() throws PosixException;
    }

    /** The C function; whatever it is given stands in registers. */
    private interface Function extends Callback {
        long invoke(long first, long second, long third, long fourth, long fifth);
    }

    private final Function failing; // as long as the C library may call it

    private FailingCall(String name, int errno, BooleanSupplier when) {
        Posix.pid(); // the first use binds the usual functions
        com.sun.jna.Function usual = com.sun.jna.Function.getFunction("c", name);
        failing = (first, second, third, fourth, fifth) -> {
            if (!when.getAsBoolean()) {
                return usual.invokeLong(new Object[] {first, second, third, fourth, fifth});
            }
            Native.setLastError(errno);
            return -1;
        };
    }

    /** Does something while a function fails. */
    static void during(String name, int errno, Action action) throws PosixException {
        during(name, errno, () -> true, action);
    }

    /** The same; it fails when that is said of a call. */
    static void during(String name, int errno, BooleanSupplier when, Action action) throws PosixException {
        FailingCall call = new FailingCall(name, errno, when);
        bind(name, CallbackReference.getFunctionPointer(call.failing));
        try {
            action.run();
        } finally {
            bindUsual();
        }
    }

    /** Binds one function to another address, and all others as usual. */
    static void bind(String replaced, Pointer address) {
        bind((library, name, usual) ->
                name.equals(replaced) ? Pointer.nativeValue(address) : usual.getSymbolAddress(library, name, null));
    }

    static void bindUsual() {
        bind((library, name, usual) -> usual.getSymbolAddress(library, name, null));
    }

    private static void bind(SymbolProvider symbols) {
        Native.register(
                Libc.class,
                NativeLibrary.getInstance(
                        "c",
                        Map.of(Library.OPTION_STRING_ENCODING, "ISO-8859-1", Library.OPTION_SYMBOL_PROVIDER, symbols)));
    }
}
