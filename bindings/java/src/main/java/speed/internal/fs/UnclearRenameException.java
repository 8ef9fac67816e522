package speed.internal.fs;

/** A rename failed, and whether it took place all the same could not be found out. */
final class UnclearRenameException extends PosixException {
    private static final long serialVersionUID = 1L;

    UnclearRenameException(PosixException failure) {
        super(failure.errno(), failure.getMessage());
    }
}
