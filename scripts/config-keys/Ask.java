// Asks a running Kafka broker how it describes and alters configurations, for tests/golden/config.
// Usage: java -cp 'LIBS/*' Ask.java SERVER.PROPERTIES describe|alter > describe.tsv|alter.tsv
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;

class Ask {
    static Admin admin;

    static String escape(String s) {
        return s == null ? "\\N" : s.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n");
    }

    /** `key=value`, `key-` (delete), `key+value` (append), `key_value` (subtract). */
    static AlterConfigOp op(String text) {
        int at = 0;
        while (at < text.length() && "=-+_".indexOf(text.charAt(at)) < 0) at++;
        OpType type = switch (text.charAt(at)) {
            case '=' -> OpType.SET;
            case '-' -> OpType.DELETE;
            case '+' -> OpType.APPEND;
            default -> OpType.SUBTRACT;
        };
        return new AlterConfigOp(new ConfigEntry(text.substring(0, at), type == OpType.DELETE ? null : text.substring(at + 1)), type);
    }

    static String alter(ConfigResource resource, String ops, boolean validateOnly) throws Exception {
        List<AlterConfigOp> list = new ArrayList<>();
        for (String op : ops.split(";")) list.add(op(op));
        try {
            admin.incrementalAlterConfigs(Map.of(resource, list), new AlterConfigsOptions().validateOnly(validateOnly)).all().get();
            return "NONE\t";
        } catch (ExecutionException e) {
            return Errors.forException(e.getCause()) + "\t" + escape(e.getCause().getMessage());
        }
    }

    static void describe(String type, String name) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.valueOf(type), name);
        Config config = admin.describeConfigs(List.of(resource), new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all().get().get(resource);
        TreeMap<String, ConfigEntry> sorted = new TreeMap<>();
        for (ConfigEntry e : config.entries()) sorted.put(e.name(), e);
        for (ConfigEntry e : sorted.values()) {
            StringJoiner synonyms = new StringJoiner("|");
            for (var s : e.synonyms()) synonyms.add(s.name() + "=" + escape(s.value()) + "@" + s.source());
            System.out.println(String.join("\t", type, name, e.name(), escape(e.value()), e.source().name(), e.isSensitive() ? "sensitive" : "", e.isReadOnly() ? "read-only" : "", e.type().name(), synonyms.toString(),
                Integer.toHexString(Objects.requireNonNullElse(e.documentation(), "").hashCode())));
        }
    }

    static final String[][] SET = {
        {"BROKER", "", "log.retention.ms=86400000;log.cleaner.backoff.ms=20000;max.connections=1000;log.flush.interval.ms=5000;log.cleanup.policy=compact , delete;compression.type=lz4;min.insync.replicas=1"},
        {"BROKER", "1", "log.retention.ms=43200000;message.max.bytes=2000000;listener.name.plaintext.max.connections=77;leader.replication.throttled.rate=1000;my.custom.key=7"},
        {"TOPIC", "with", "retention.ms=3600000;cleanup.policy=compact;compression.zstd.level= +7 ;min.cleanable.dirty.ratio=1e-1;max.message.bytes=5;internal.segment.bytes=1000;leader.replication.throttled.replicas=0:1,1:1"},
        {"GROUP", "g", "consumer.session.timeout.ms=50000;share.auto.offset.reset=earliest"},
        {"CLIENT_METRICS", "m", "interval.ms=60000;metrics=a,b"},
    };

    static final String[][] ALTER = {
        {"TOPIC", "with", "retention.ms=x"}, {"TOPIC", "with", "retention.ms=-2"}, {"TOPIC", "with", "nope=1"}, {"TOPIC", "with", "nope=1;never=2;zz=3"}, {"TOPIC", "with", "retention.ms=x;segment.ms=0"}, {"TOPIC", "with", "nope-"},
        {"TOPIC", "with", "retention.ms-"}, {"TOPIC", "with", "cleanup.policy=delete,"}, {"TOPIC", "with", "cleanup.policy=Delete"}, {"TOPIC", "with", "cleanup.policy="}, {"TOPIC", "with", "cleanup.policy+delete"}, {"TOPIC", "with", "cleanup.policy_compact"},
        {"TOPIC", "with", "cleanup.policy_delete"}, {"TOPIC", "with", "cleanup.policy+compact"}, {"TOPIC", "with", "retention.ms+5"}, {"TOPIC", "with", "retention.ms_5"}, {"TOPIC", "with", "nope+5"}, {"TOPIC", "with", "min.compaction.lag.ms=10;max.compaction.lag.ms=5"},
        {"TOPIC", "with", "max.compaction.lag.ms=5;min.compaction.lag.ms=5"}, {"TOPIC", "with", "leader.replication.throttled.replicas=x"}, {"TOPIC", "with", "leader.replication.throttled.replicas=*"}, {"TOPIC", "with", "leader.replication.throttled.replicas+0:1"},
        {"TOPIC", "with", "leader.replication.throttled.replicas_0:1"}, {"TOPIC", "with", "leader.replication.throttled.replicas_0:1,1:1"}, {"TOPIC", "without", "leader.replication.throttled.replicas+2:2"}, {"TOPIC", "with", "remote.storage.enable=true"}, {"TOPIC", "with", "remote.storage.enable=false"},
        {"TOPIC", "with", "local.retention.ms=5"}, {"TOPIC", "with", "segment.bytes=1000"}, {"TOPIC", "with", "internal.segment.bytes=x"}, {"TOPIC", "with", "preallocate=maybe"}, {"TOPIC", "with", "compression.type=brotli"}, {"TOPIC", "with", "compression.gzip.level=0"},
        {"TOPIC", "with", "message.timestamp.type=createtime"}, {"TOPIC", "with", "min.insync.replicas=0"}, {"TOPIC", "with", "min.cleanable.dirty.ratio=1.1"}, {"TOPIC", "missing", "retention.ms=x"}, {"TOPIC", "missing", "retention.ms=5"}, {"TOPIC", "a b", "retention.ms=x"},
        {"TOPIC", "", "retention.ms=1"}, {"TOPIC", "with", "retention.ms=1;retention.ms=2"}, {"TOPIC", "with", "=1"},
        {"BROKER", "1", "log.dirs=/x"}, {"BROKER", "1", "log.dirs=/x;node.id=5;broker.id=6"}, {"BROKER", "1", "ssl.keystore.location=/x"}, {"BROKER", "1", "ssl.keystore.location=/x;ssl.keystore.type=JKS"}, {"BROKER", "1", "log.retention.ms=x"}, {"BROKER", "1", "nope=1"}, {"BROKER", "1", "nope+1"},
        {"BROKER", "1", "nope-"}, {"BROKER", "1", "log.retention.ms+5"}, {"BROKER", "1", "log.retention.ms_5"}, {"BROKER", "1", "log.cleanup.policy+compact"}, {"BROKER", "1", "log.cleanup.policy_delete"}, {"BROKER", "1", "log.cleanup.policy=x"}, {"BROKER", "1", "num.io.threads=100"},
        {"BROKER", "1", "num.io.threads=16"}, {"BROKER", "1", "num.io.threads=17"}, {"BROKER", "1", "num.io.threads=4"}, {"BROKER", "1", "num.io.threads=3"}, {"BROKER", "1", "num.io.threads=0"}, {"BROKER", "1", "num.network.threads=7"}, {"BROKER", "1", "num.network.threads=1"},
        {"BROKER", "1", "num.network.threads=6"}, {"BROKER", "1", "listener.name.plaintext.num.network.threads=9"}, {"BROKER", "1", "log.cleaner.threads=3"}, {"BROKER", "1", "log.cleaner.threads=2"}, {"BROKER", "1", "log.cleaner.threads=0"}, {"BROKER", "1", "log.cleaner.dedupe.buffer.size=5"},
        {"BROKER", "1", "background.threads=4"}, {"BROKER", "1", "num.replica.fetchers=3"}, {"BROKER", "1", "num.recovery.threads.per.data.dir=1"}, {"BROKER", "1", "num.io.threads=100;background.threads=100"},
        {"BROKER", "", "listener.name.plaintext.ssl.keystore.location=/x"}, {"BROKER", "", "listener.name.plaintext.max.connections=5"}, {"BROKER", "", "listeners=PLAINTEXT://:1"}, {"BROKER", "", "cordoned.log.dirs=/x"}, {"BROKER", "", "log.retention.ms=0"}, {"BROKER", "1", "log.retention.ms=0"},
        {"BROKER", "", "log.roll.ms=0"}, {"BROKER", "", "min.insync.replicas=2"}, {"BROKER", "", "min.insync.replicas-"}, {"BROKER", "1", "min.insync.replicas=2"}, {"BROKER", "1", "min.insync.replicas-"}, 
        {"BROKER", "1", "log.retention.ms=5;log.retention.ms=6"}, {"BROKER", "1", "max.connections.per.ip.overrides=x"}, {"BROKER", "1", "max.connections.per.ip=0"}, {"BROKER", "1", "max.connections.per.ip.overrides=h i:5"}, {"BROKER", "1", "max.connections=-1"},
        {"BROKER", "1", "listener.name.plaintext.max.connections=-1"}, {"BROKER", "1", "listener.name.plaintext.nope=1"}, {"BROKER", "1", "log.local.retention.ms=100000000"}, {"BROKER", "1", "log.local.retention.ms=-1"}, {"BROKER", "1", "log.local.retention.ms=5"}, {"BROKER", "1", "log.local.retention.bytes=-1"},
        {"BROKER", "1", "log.retention.bytes=100;log.local.retention.bytes=200"}, {"BROKER", "1", "cordoned.log.dirs=/x"}, {"BROKER", "1", "leader.replication.throttled.rate=-1"}, {"BROKER", "1", "follower.replication.throttled.rate=5"}, {"BROKER", "1", "principal.builder.class=Nope"},
        {"BROKER", "1", "metric.reporters=Nope"}, {"BROKER", "1", "group.consumer.assignment.interval.ms=50000"}, {"BROKER", "1", "producer.id.expiration.ms=0"}, {"BROKER", "1", "remote.log.reader.threads=100"}, {"BROKER", "1", "remote.fetch.max.wait.ms=0"},
        {"BROKER", "1", "log.message.timestamp.type=x"}, {"BROKER", "1", "advertised.listeners=PLAINTEXT://h:1"}, {"BROKER", "1", "log.segment.bytes=5"}, {"BROKER", "1", "log.retention.hours=5"}, {"BROKER", "", "log.retention.hours=5"}, {"BROKER", "1", "log.flush.interval.ms=-5"},
        {"BROKER", "1", "log.cleaner.min.compaction.lag.ms=10;log.cleaner.max.compaction.lag.ms=5"}, {"BROKER", "1", "unclean.leader.election.enable=x"}, {"BROKER", "1", "log.retention.ms-;message.max.bytes-"}, {"BROKER", "1", "listener.name.plaintext.ssl.client.auth=x"},
        {"BROKER", "1", "config.providers=x"}, {"BROKER", "1", "log.index.interval.bytes= 5 "},
        {"GROUP", "g", "nope=1"}, {"GROUP", "g", "consumer.session.timeout.ms=1"}, {"GROUP", "g", "consumer.session.timeout.ms=100000"}, {"GROUP", "g", "consumer.heartbeat.interval.ms=20000"}, {"GROUP", "g", "consumer.session.timeout.ms=x"}, {"GROUP", "", "consumer.session.timeout.ms=50000"},
        {"GROUP", "g", "share.auto.offset.reset=x"}, {"GROUP", "g", "share.isolation.level=x"}, {"GROUP", "g", "streams.num.standby.replicas=3"}, {"GROUP", "g", "consumer.assignment.interval.ms=20000"}, {"GROUP", "g", "share.record.lock.duration.ms=5000"}, {"GROUP", "g", "share.delivery.count.limit=20"},
        {"GROUP", "g", "share.partition.max.record.locks=5000"}, {"GROUP", "g", "consumer.heartbeat.interval.ms=1000"}, {"GROUP", "g", "share.session.timeout.ms=1"}, {"GROUP", "g", "streams.session.timeout.ms=100000"}, {"GROUP", "g", "streams.heartbeat.interval.ms=1"}, {"GROUP", "g", "consumer.session.timeout.ms+1"},
        {"GROUP", "other", "consumer.session.timeout.ms=50000"}, {"GROUP", "g", "nope=1;never=2"},
        {"CLIENT_METRICS", "m", "nope=1"}, {"CLIENT_METRICS", "m", "interval.ms=99"}, {"CLIENT_METRICS", "m", "interval.ms=3600001"}, {"CLIENT_METRICS", "m", "interval.ms=x"}, {"CLIENT_METRICS", "m", "match=x"}, {"CLIENT_METRICS", "m", "match=nope=1"}, {"CLIENT_METRICS", "m", "match=client_id=["},
        {"CLIENT_METRICS", "m", "match=client_id=a.*,client_source_port=1"}, {"CLIENT_METRICS", "", "interval.ms=1000"}, {"CLIENT_METRICS", "m", "metrics=a,,b"}, {"CLIENT_METRICS", "m", "metrics="}, {"CLIENT_METRICS", "m", "metrics+c"}, {"CLIENT_METRICS", "m", "interval.ms+c"}, {"CLIENT_METRICS", "m", "match=client_id=a=b"},
        {"CLIENT_METRICS", "m", "match=client_id=(a"}, {"CLIENT_METRICS", "m", "match=client_id=*a"}, {"CLIENT_METRICS", "m", "match=client_id=a)"},
    };

    public static void main(String[] args) throws Exception {
        List<String> started = Files.readAllLines(Path.of(args[0]));
        String listeners = started.stream().filter(line -> line.startsWith("listeners=")).findFirst().orElseThrow();
        admin = Admin.create(Map.of("bootstrap.servers", listeners.replaceAll(".*PLAINTEXT://([^,]*).*", "$1"), "default.api.timeout.ms", "60000"));
        try {
            admin.createTopics(List.of(new NewTopic("with", 2, (short) 1), new NewTopic("without", 1, (short) 1))).all().get();
        } catch (ExecutionException e) {
            // asked before
        }
        System.out.println("# the settings of Apache Kafka 4.3.1");
        System.out.println("# started with\t" + String.join("\t", started));
        System.out.println("# dynamic configurations: resource, name, settings (`;` divides)");
        for (String[] set : SET) {
            String error = alter(new ConfigResource(ConfigResource.Type.valueOf(set[0]), set[1]), set[2], false);
            if (!error.startsWith("NONE")) throw new IllegalStateException(set[2] + ": " + error);
            System.out.println("# set\t" + String.join("\t", set));
        }
        Thread.sleep(2000);
        if (args[1].equals("describe")) {
            System.out.println("# resource, name, key, value, source, sensitive, read-only, type, synonyms, hash of the documentation");
            for (String[] resource : new String[][] {{"TOPIC", "with"}, {"TOPIC", "without"}, {"BROKER", "1"}, {"BROKER", ""}, {"GROUP", "g"}, {"GROUP", "none"}, {"CLIENT_METRICS", "m"}, {"CLIENT_METRICS", "none"}}) describe(resource[0], resource[1]);
        } else {
            System.out.println("# resource, name, alterations, error, message");
            for (String[] c : ALTER) {

                System.out.println(String.join("\t", c[0], c[1], c[2], alter(new ConfigResource(ConfigResource.Type.valueOf(c[0]), c[1]), c[2], true)));
            }
        }
        admin.close();
    }
}
