// Prints texts of values and what Kafka's definitions make of them, for tests/golden/config/values.tsv.
// Usage: java -cp 'LIBS/*' Values.java [all] > values.tsv
//
// One key stands for all that have its type and limits, unless `all` is asked for.
// A line: scope, key, text (escaped), `=` and the value's text, or `!` and the message.
import java.lang.reflect.*;
import java.util.*;
import org.apache.kafka.common.config.*;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.*;

class Values {
    static ConfigDef def(String cls, String name) throws Exception {
        Field f = Class.forName(cls).getDeclaredField(name);
        f.setAccessible(true);
        return (ConfigDef) f.get(null);
    }

    static String escape(String s) {
        return s.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n");
    }

    static final String[] NUMBERS = {"0", "1", "-1", "-2", "-3", " 5 ", "+7", "007", "9", "10", "99", "100", "101", "1024", "1048576", "1048575", "524288", "8388607", "2147483647", "2147483648", "-2147483648",
        "-2147483649", "32767", "32768", "9223372036854775807", "9223372036854775808", "-131072", "-131073", "22", "23", "17", "18", "1.5", "0.5", "0.51", "1e3", "NaN", "x", "", " ", "1 2", "1,000", "0x10", "-0", "1f", "1d", ".5", "5.",
        "Infinity", "-Infinity", "1e400", "1e-400", "123456789.125", "0.001", "0.00099", "12345678", "86400", "86401", "3600", "3601", "30000", "3600000", "3600001", "4001", "10001"};
    static final String[] BOOLEANS = {"true", "TRUE", " False ", "yes", "1", "", "t"};
    static final String[] LISTS = {"", " ", "a", "a,b", " a , b ", "a,a", "a,", ",a", ",", "compact", "delete, compact", "compact,delete,compact", "Delete", "broker", "controller,broker", "classic,consumer",
        "uniform,range", "0:1", "0:1,1:2", "0:1 ,2:3", "*", " * ", "*,*", "0", "0:x", "a:b", "0:1,", "1@h:1", "1@h:1,2@h:2", "x@h:1", "1@h", "1@", "@", "1@h:x", "1@[::1]:9", "1@h i:1", "1@0.0.0.0:1", "h:1", "h:1,h", "h:x", "h i:1",
        "[::1]:9092", "PLAINTEXT://h:1", "PLAINTEXT://:9092,SSL://:9093"};
    static final String[] STRINGS = {"", " ", "producer", "Producer", "gzip", " zstd ", "none", "CreateTime", "LogAppendTime", "createtime", "PLAINTEXT", "ssl", "SSL", "SASL_SSL", "required", "disabled", "BiDirectional", "upgrade",
        "es256", "RS256", "x", "a b", "latest", "earliest", "LATEST", "by_duration", "by_duration:", "by_duration:P1D", "by_duration:PT1H2M3.5S", "by_duration:-PT1S", "by_duration:PT-1S", "by_duration:P", "by_duration:PT", "by_duration:P1DT",
        "by_duration:P1W", "by_duration:pt1s", "by_duration:PT1.5H", "by_duration:PT1M1H", "by_duration:-PT-1S", "by_duration:P-1DT48H", "by_duration:+P1D", "read_committed", "READ_COMMITTED"};

    static String[] ends(String range) {
        List<String> texts = new ArrayList<>();
        for (String end : range.replaceAll("[\\[\\]]", "").split(",")) {
            if (end.equals("...")) continue;
            if (end.contains(".")) {
                texts.addAll(List.of(end, end + "1"));
                continue;
            }
            long n = Long.parseLong(end);
            texts.addAll(List.of("" + (n - 1), "" + n, "" + (n + 1)));
        }
        return texts.toArray(String[]::new);
    }

    public static void main(String[] args) throws Exception {
        boolean all = args.length > 0;
        Map<String, ConfigDef> scopes = new LinkedHashMap<>();
        scopes.put("broker", AbstractKafkaConfig.CONFIG_DEF);
        scopes.put("topic", def("org.apache.kafka.storage.internals.log.LogConfig", "CONFIG"));
        scopes.put("group", GroupConfig.CONFIG_DEF);
        scopes.put("client-metrics", def("org.apache.kafka.server.metrics.ClientMetricsConfigs", "CONFIG"));
        scopes.put("client-quota", QuotaConfig.userAndClientQuotaConfigs());
        scopes.put("ip-quota", QuotaConfig.ipConfigs());
        Method parse = ConfigDef.class.getDeclaredMethod("parseValue", ConfigDef.ConfigKey.class, Object.class, boolean.class);
        parse.setAccessible(true);
        Set<String> seen = new HashSet<>();
        Set<ConfigDef.Type> types = new HashSet<>();
        System.out.println("# scope, key, text, and `=` with the value's text or `!` with the message of Apache Kafka 4.3.1");
        for (var scope : scopes.entrySet()) {
            for (ConfigDef.ConfigKey key : scope.getValue().configKeys().values()) {
                if (key.type == ConfigDef.Type.CLASS) continue;
                String kind = key.type + " " + (key.validator == null ? "" : key.validator.getClass() + " " + key.validator);
                if (key.validator instanceof ConfigDef.ValidList) kind += key.name.contains("listeners") || key.name.contains("dirs");
                if (!all && !seen.add(kind)) continue;
                String[] texts = switch (key.type) {
                    case BOOLEAN -> BOOLEANS;
                    case LIST -> LISTS;
                    case STRING, PASSWORD -> STRINGS;
                    default -> NUMBERS;
                };
                // all numbers once for each type, then those at the ends of each range
                if (!all && key.validator instanceof ConfigDef.Range && !types.add(key.type)) texts = ends(key.validator.toString());
                for (String text : texts) {
                    String result;
                    try {
                        result = "=" + ConfigDef.convertToString(parse.invoke(scope.getValue(), key, text, true), key.type);
                    } catch (InvocationTargetException e) {
                        result = "!" + e.getCause().getMessage();
                    }
                    System.out.println(String.join("\t", scope.getKey(), key.name, escape(text), escape(result)));
                }
            }
        }
    }
}
