package speed.internal.fs;

import java.net.URI;
import java.net.URISyntaxException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import speed.errors.ConfigurationException;
import speed.errors.KeyRefusedException;
import speed.errors.KeyUnavailableException;
import speed.errors.MessageKeyException;
import speed.internal.fs.Posix.FileStatus;
import speed.internal.wire.Block;
import speed.message.MessageKey;

/** Reading sets of keys of messages, from files and from the environment. */
public final class KeySets {
    private static final int MAX_BYTES = 1 << 20;
    private static final int OTHERS = 077;
    private static final int OTHERS_WRITE = 022;

    private KeySets() {}

    /** The keys that a URI leads to; ConfigurationException, KeyUnavailableException, KeyRefusedException. */
    public static List<MessageKey> read(String uri) {
        return read(uri, System.getenv());
    }

    static List<MessageKey> read(String uri, Map<String, String> environment) {
        URI place = parsed(uri);
        String scheme = String.valueOf(place.getScheme());
        return switch (scheme) {
            case "file" -> ofFile(pathOf(place));
            case "env" -> ofVariable(nameOf(place), environment);
            default -> throw new ConfigurationException("no key provider for '" + scheme + "://'; there are file, env");
        };
    }

    /** What it says is not shown: a key may have been given in its place. */
    private static URI parsed(String uri) {
        try {
            return new URI(uri);
        } catch (URISyntaxException broken) {
            throw new ConfigurationException("where keys are is no URI: use file:///etc/speed/keys.json or env://NAME");
        }
    }

    private static String pathOf(URI place) {
        String path = place.getPath();
        boolean isPath = place.getRawAuthority() == null && path != null && path.startsWith("/") && path.indexOf(0) < 0;
        if (!isPath || hasMore(place)) {
            throw new ConfigurationException("file:// needs an absolute path, such as file:///etc/speed/keys.json");
        }
        return path;
    }

    private static String nameOf(URI place) {
        String name = place.getRawAuthority();
        if (name == null || !place.getRawPath().isEmpty() || hasMore(place)) {
            throw new ConfigurationException("env:// needs the name of a variable, such as env://ORDERS_KEYS");
        }
        return name;
    }

    private static boolean hasMore(URI place) {
        return place.getRawQuery() != null || place.getRawFragment() != null;
    }

    private static List<MessageKey> ofVariable(String name, Map<String, String> environment) {
        String text = environment.get(name);
        if (text == null) {
            throw new KeyUnavailableException("key set env://" + name + ": there is no such variable");
        }
        return parsed(text.getBytes(StandardCharsets.UTF_8), "env://" + name);
    }

    private static List<MessageKey> ofFile(String path) {
        int file = open(path);
        try {
            FileStatus status = Posix.status(file);
            if (!status.isRegular() || status.uid() != Posix.uid() && status.uid() != 0) {
                throw new KeyRefusedException("key set " + path + ": is no regular file of this user");
            }
            Block text = new Block(MAX_BYTES + 1);
            List<MessageKey> keys = parsed(text.copy(0, Posix.read(file, text, text.size, 0)), path);
            if (status.has(OTHERS_WRITE) || status.has(OTHERS) && keys.stream().anyMatch(MessageKey::hasSecret)) {
                throw new KeyRefusedException("key set " + path + ": others may read or write it: chmod 600 " + path);
            }
            return keys;
        } catch (PosixException error) {
            throw unreadable(error);
        } finally {
            Posix.close(file);
        }
    }

    private static int open(String path) {
        try {
            return Posix.open(path, Posix.O_RDONLY | Posix.O_NOFOLLOW | Posix.O_NONBLOCK, 0);
        } catch (PosixException error) {
            throw unreadable(error);
        }
    }

    private static MessageKeyException unreadable(PosixException error) {
        String text = "key set " + error.getMessage();
        return switch (error.errno()) {
            case PosixException.EACCES, PosixException.EPERM, PosixException.ELOOP -> new KeyRefusedException(text);
            default -> new KeyUnavailableException(text);
        };
    }

    private static List<MessageKey> parsed(byte[] text, String where) {
        if (text.length > MAX_BYTES) {
            throw new KeyRefusedException("key set " + where + ": is larger than " + MAX_BYTES + " bytes");
        }
        try {
            return MessageKey.parseAll(StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(text))
                    .toString());
        } catch (CharacterCodingException broken) {
            throw new KeyRefusedException("key set " + where + ": is not JSON");
        } catch (KeyRefusedException refused) {
            throw new KeyRefusedException("key set " + where + ": " + refused.getMessage());
        }
    }
}
