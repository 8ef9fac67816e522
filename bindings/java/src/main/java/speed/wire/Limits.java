package speed.wire;

/** The numbers of {@code registry_spec/limits.json}; a test asserts that both are equal. */
public final class Limits {
    public static final int PROTOCOL_VERSION = 1;
    public static final int HEADER_BYTES = 64;
    public static final int SECURITY_HEADER_BYTES = 24;
    public static final int AAD_BYTES = 88;
    public static final int TAG_BYTES = 16;
    public static final int NONCE_BYTES = 12;
    public static final int KEY_BYTES = 32;
    public static final int KEY_ID_BYTES = 8;
    public static final int NODE_ID_BYTES = 16;
    public static final String NODE_ID_NAMESPACE_HEX = "53504545442f31206e6f646520696400";
    public static final int GENERATION_BITS = 24;
    public static final int COUNTER_BITS = 40;
    public static final int MAX_PAYLOAD_BYTES = 67_108_864;
    public static final int MAX_NAME_BYTES = 128;
    public static final int MAX_TOPIC_BYTES = 255;
    public static final int MAX_REQUEST_ID_BYTES = 64;
    public static final int MAX_KEYS = 16;
    public static final int MAX_ENTRY_BYTES = 65_536;
    public static final int MIN_ENTRY_BYTES = 2048;
    public static final int MAX_REMEMBERED_JUNK = 4096;
    public static final int SEGMENT_BYTES = 8_388_608;
    public static final int LANE_WINDOW_BYTES = 67_108_864;
    public static final int MAX_LANES = 4096;
    public static final int MAX_LANE_SEGMENTS = 32_768;
    public static final int MAX_UNFINISHED = 64;
    public static final int MAX_UNFINISHED_BYTES = 134_217_728;
    public static final int MAX_QUARANTINE_FILES = 256;
    public static final int MAX_QUARANTINE_BYTES = 67_108_864;
    public static final int MAX_VALUE_DEPTH = 32;
    public static final int MAX_JSON_DEPTH = 64;
    public static final int MAX_ZSTD_WINDOW_BYTES = 8_388_608;
    public static final int COLUMN_EXTENSION = 1;
    public static final int JOURNAL_BLOCK_RECORDS = 4096;
    public static final int JOURNAL_BLOCK_BYTES = 262_144;
    public static final int MAX_JOURNAL_BLOCK_BYTES = 67_174_400;
    public static final int JOURNAL_SEGMENT_BYTES = 8_388_608;
    public static final int MAX_JOURNAL_LANES = 4096;
    public static final int MAX_SEGMENTS = 255;
    public static final int DATA_SEGMENT_BYTES = 4_194_304;
    public static final double PARITY_RATE = 0.125;
    public static final int MIN_LENGTH_TRIALS = 65_536;
    public static final int MAX_SEGMENTED_BYTES = 1_073_741_824;
    public static final int MAX_SEGMENTED_HEAD_BYTES = 65_536;
    public static final int FILE_BACKED_BYTES = 16_777_216;
    public static final int MAX_RECONSTRUCTIONS = 256;
    public static final int MAX_SENDER_RECONSTRUCTIONS = 16;
    public static final long MAX_BUFFERED_BYTES = 2_281_701_376L;
    public static final long MAX_SENDER_BUFFERED_BYTES = 1_140_850_688L;
    public static final int MAX_COMPLETIONS = 65_536;
    public static final int MAX_SENDER_COMPLETIONS = 4096;
    public static final double RECONSTRUCTION_IDLE_SECONDS = 60.0;
    public static final double RECONSTRUCTION_SECONDS = 3600.0;
    public static final double COMPLETION_SECONDS = 600.0;
    public static final double LEASE_SECONDS = 30.0;
    public static final double HEARTBEAT_SECONDS = 5.0;
    public static final double CALL_TIMEOUT_SECONDS = 30.0;
    public static final double FULL_SCAN_SECONDS = 0.5;
    public static final double REMOTE_LATE_SECONDS = 60.0;
    public static final double UNGRANTED_LANE_GRACE_SECONDS = 30.0;
    public static final int DEFAULT_PRIORITY = 5;

    private Limits() {}
}
