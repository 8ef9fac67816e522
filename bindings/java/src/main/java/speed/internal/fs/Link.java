package speed.internal.fs;

import speed.internal.wire.Keyring;

/**
 * From whom to whom a lane leads, and under which root; the generation is the receiver's, which may be ephemeral.
 * Where the filesystem is remote, its cursors cannot be sealed.
 */
public record Link(
        String root, String source, String target, int generation, Keyring keyring, boolean isEphemeral, boolean canSeal) {}
