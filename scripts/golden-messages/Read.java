// Has Kafka's own classes read request bodies. Reads lines "KEY VERSION HEX" and adds to each what Kafka makes of it:
// "refused" (a broker closes the connection), or the number of bytes it leaves unread and the bytes it would write
// itself for what it read, without unknown tagged fields.
// usage: mutate.py COUNT < messages.jsonl | java -cp 'KAFKA_LIBS/*' Read.java > mutated.txt
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.Collections;
import java.util.HexFormat;
import java.util.IdentityHashMap;
import java.util.Set;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class Read {
    static void dropUnknownTags(Object value, Set<Object> seen) throws Exception {
        if (value == null || !seen.add(value)) return;
        if (value instanceof Collection<?> entries) {
            for (Object entry : entries) dropUnknownTags(entry, seen);
        } else if (value instanceof Message message) {
            message.unknownTaggedFields().clear();
            for (Field field : value.getClass().getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers())) continue;
                field.setAccessible(true);
                dropUnknownTags(field.get(value), seen);
            }
        }
    }

    static String read(ApiKeys key, short version, byte[] body) throws Exception {
        ApiMessage message = key.messageType.newRequest();
        ByteBufferAccessor bytes = new ByteBufferAccessor(ByteBuffer.wrap(body));
        try {
            message.read(bytes, version);
        } catch (RuntimeException refused) {
            return "refused";
        }
        dropUnknownTags(message, Collections.newSetFromMap(new IdentityHashMap<>()));
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(written), cache, version);
        return bytes.remaining() + " " + HexFormat.of().formatHex(written.array());
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, false);
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            ApiKeys key = ApiKeys.forId(Integer.parseInt(words[0]));
            out.println(line + " " + read(key, Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
        }
        out.flush();
    }
}
