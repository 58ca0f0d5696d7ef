// Prints the table of configuration keys that src/config/keys.tsv holds, read by reflection from a Kafka release's own
// definitions. Usage: java -cp 'LIBS/*' Generate.java > keys.tsv
//
// One line a key, in the order of definition (it decides which of several wrong values is reported):
// scope, name, type, default, validator, importance, update mode, internal, synonyms, documentation.
import java.lang.reflect.Field;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.*;

public class Generate {
    static Object field(Object owner, Class<?> cls, String name) throws Exception {
        for (Class<?> c = cls; c != null; c = c.getSuperclass()) {
            for (Field f : c.getDeclaredFields()) {
                if (f.getName().equals(name)) {
                    f.setAccessible(true);
                    return f.get(owner);
                }
            }
        }
        throw new NoSuchFieldException(name);
    }

    static ConfigDef def(String cls, String name) throws Exception {
        return (ConfigDef) field(null, Class.forName(cls), name);
    }

    static String escape(String s) {
        return s.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n");
    }

    static String defaultOf(ConfigDef.ConfigKey k) {
        if (!k.hasDefault()) return "\\R";
        if (k.defaultValue == null) return "\\N";
        return escape(ConfigDef.convertToString(k.defaultValue, k.type));
    }

    static String bound(Object n) {
        return n == null ? "-" : n.toString();
    }

    @SuppressWarnings("unchecked")
    static String validatorOf(ConfigDef.ConfigKey k) throws Exception {
        ConfigDef.Validator v = k.validator;
        if (v == null) return "";
        Class<?> c = v.getClass();
        return switch (c.getSimpleName()) {
            case "Range" -> "range " + bound(field(v, c, "min")) + " " + bound(field(v, c, "max"));
            case "ValidString" -> "one-of " + String.join("|", (List<String>) field(v, c, "validStrings"));
            case "CaseInsensitiveValidString" -> "one-of-any-case " + String.join("|", (Set<String>) field(v, c, "validStrings"));
            case "ValidList" -> "list "
                + ((boolean) field(v, c, "isEmptyAllowed") ? "empty " : "nonempty ")
                + ((boolean) field(v, c, "isNullAllowed") ? "null " : "nonnull ")
                + String.join("|", (List<String>) field(field(v, c, "validString"), Class.forName("org.apache.kafka.common.config.ConfigDef$ValidString"), "validStrings"));
            case "NonEmptyString" -> "nonempty-string";
            case "NonNullValidator" -> "nonnull";
            case "LambdaValidator" -> {
                if (!k.name.equals("compression.gzip.level")) throw new IllegalStateException("unknown lambda of " + k.name);
                yield "gzip-level";
            }
            case "ControllerQuorumVotersValidator" -> "quorum-voters";
            case "ControllerQuorumBootstrapServersValidator" -> "bootstrap-servers";
            case "ThrottledReplicaListValidator" -> "throttled-replicas";
            case "Validator" -> "share-auto-offset-reset";
            default -> throw new IllegalStateException("unknown validator " + c + " of " + k.name);
        };
    }

    static void print(String scope, ConfigDef def, Map<String, String> modes, Map<String, String> synonyms) throws Exception {
        for (ConfigDef.ConfigKey k : def.configKeys().values()) {
            System.out.println(String.join("\t", scope, k.name, k.type.name(), defaultOf(k), validatorOf(k), k.importance.name(),
                modes.getOrDefault(k.name, ""), k.internalConfig ? "internal" : "", synonyms.getOrDefault(k.name, ""),
                k.documentation == null ? "" : escape(k.documentation)));
        }
    }

    public static void main(String[] args) throws Exception {
        System.out.println("# Configuration keys of Apache Kafka 4.3.1, written by scripts/config-keys/generate. Documentation texts are Kafka's, "
            + "Copyright the Apache Software Foundation, Apache License 2.0.");
        System.out.println("# scope\tname\ttype\tdefault (\\N: null, \\R: required)\tvalidator\timportance\tupdate mode\tinternal\tsynonyms\tdocumentation");
        ConfigDef broker = AbstractKafkaConfig.CONFIG_DEF;
        print("broker", broker, DynamicBrokerConfig.dynamicConfigUpdateModes(), Map.of());
        print("broker-dynamic", QuotaConfig.brokerQuotaConfigs(), Map.of(), Map.of());

        // each topic key's broker keys in order, with the factor from their unit to the topic's
        Map<String, String> topicSynonyms = new HashMap<>();
        for (var e : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.entrySet()) {
            topicSynonyms.put(e.getKey(), e.getValue().stream().map(s -> {
                String five = s.converter().apply("5");
                return s.name() + (five.equals("5") ? "" : "*" + Long.parseLong(five) / 5);
            }).collect(Collectors.joining(",")));
        }
        print("topic", def("org.apache.kafka.storage.internals.log.LogConfig", "CONFIG"), Map.of(), topicSynonyms);

        Map<String, String> groupSynonyms = new HashMap<>();
        GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.forEach((name, s) -> s.ifPresent(b -> groupSynonyms.put(name, b)));
        print("group", GroupConfig.CONFIG_DEF, Map.of(), groupSynonyms);
        print("client-metrics", def("org.apache.kafka.server.metrics.ClientMetricsConfigs", "CONFIG"), Map.of(), Map.of());
        print("client-quota", QuotaConfig.userAndClientQuotaConfigs(), Map.of(), Map.of());
        print("ip-quota", QuotaConfig.ipConfigs(), Map.of(), Map.of());
    }
}
