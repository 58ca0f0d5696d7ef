// Serialises the messages of generate.py by Kafka's own classes. Reads lines {"api_key", "kind", "version", "json"} and
// prints them with "hex" (the body) added, and "json" as Kafka's converters print what they read
// back from those bytes.
// usage: generate.py ... | java -cp 'KAFKA_LIBS/*' Write.java > messages.jsonl
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class Write {
    static Class<?> converter(ApiMessage message) throws Exception {
        return Class.forName(message.getClass().getName() + "JsonConverter");
    }

    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            ObjectNode node = (ObjectNode) mapper.readTree(line);
            short version = (short) node.get("version").asInt();
            ApiKeys key = ApiKeys.forId(node.get("api_key").asInt());
            boolean request = node.get("kind").asText().equals("request");
            ApiMessage empty = request ? key.messageType.newRequest() : key.messageType.newResponse();
            ApiMessage message = (ApiMessage) converter(empty).getMethod("read", JsonNode.class, short.class)
                .invoke(null, node.get("json"), version);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(buffer), cache, version);
            byte[] bytes = buffer.array();
            empty.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), version);
            node.put("hex", HexFormat.of().formatHex(bytes));
            node.set("json", (JsonNode) converter(empty)
                .getMethod("write", empty.getClass(), short.class, boolean.class).invoke(null, empty, version, false));
            out.println(mapper.writeValueAsString(node));
        }
        out.flush();
    }
}
