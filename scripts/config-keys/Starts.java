// Prints sets of settings and whether Kafka starts with them, for tests/golden/config/starts.tsv.
// Usage: java -cp 'LIBS/*' Starts.java > starts.tsv
//
// A line: the settings laid over BASE (`-key` takes one away), divided by `;`, and `=` or `!` with the message.
import java.util.*;

class Starts {
    static final String[] BASE = {"process.roles=broker,controller", "node.id=1", "controller.quorum.voters=1@localhost:9093", "controller.listener.names=CONTROLLER", "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,IN:PLAINTEXT"};

    static final String[] CASES = {
        "", "-node.id", "-process.roles", "-controller.listener.names", "-node.id;broker.id=1", "-node.id;broker.id=2", "broker.id=2", "node.id=-1", "node.id=x", "process.roles=", "process.roles=broker,broker", "process.roles=zk",
        "process.roles=broker", "process.roles=broker;node.id=2", "process.roles=broker;node.id=2;listeners=PLAINTEXT://:9092", "process.roles=broker;node.id=2;listeners=PLAINTEXT://:9092;-listener.security.protocol.map",
        "process.roles=broker;node.id=2;listeners=PLAINTEXT://:9092;listener.security.protocol.map=PLAINTEXT:PLAINTEXT", "process.roles=broker;listeners=PLAINTEXT://:9092", "process.roles=broker;node.id=2;listeners=PLAINTEXT://:9092;controller.quorum.auto.join.enable=true",
        "process.roles=controller", "process.roles=controller;listeners=CONTROLLER://:9093", "process.roles=controller;listeners=CONTROLLER://:9093;inter.broker.listener.name=CONTROLLER", "process.roles=controller;node.id=2;listeners=CONTROLLER://:9093",
        "node.id=3", "node.id=3;controller.quorum.voters=1@a:1,2@b:2", "controller.quorum.voters=1@0.0.0.0:9093", "-controller.quorum.voters;controller.quorum.bootstrap.servers=localhost:9093", "controller.quorum.voters=x", "controller.quorum.bootstrap.servers=x",
        "controller.listener.names=", "controller.listener.names=OTHER", "controller.listener.names=controller", "controller.listener.names=CONTROLLER,OTHER", "listeners=", "listeners=PLAINTEXT", "listeners=PLAINTEXT://:9092", "listeners=CONTROLLER://:9093",
        "listeners=PLAINTEXT://:9093,CONTROLLER://:9093", "listeners=PLAINTEXT://h:9093,CONTROLLER://h:9093", "listeners=PLAINTEXT://127.0.0.1:9093,CONTROLLER://[::1]:9093", "listeners=PLAINTEXT://127.0.0.1:9093,CONTROLLER://127.0.0.2:9093",
        "listeners=PLAINTEXT://127.0.0.1:9093,CONTROLLER://h:9093", "listeners=PLAINTEXT://:0,CONTROLLER://:0", "listeners=PLAINTEXT://:9092,CONTROLLER://:9093,plaintext://:9094", "listeners=PLAINTEXT://:9092,CONTROLLER://:9093,PLAINTEXT://:9092",
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093,OUT://:9094", "listeners=PLAINTEXT://:9092,CONTROLLER://:9093,IN://:9094", "listeners=PLAINTEXT://:9092 , CONTROLLER://:9093", "listeners=PLAINTEXT://h o:9092,CONTROLLER://:9093", "listeners= ://:1,CONTROLLER://:9093",
        "listeners=plaintext://:9092,controller://:9093", "listeners=PLAINTEXT://:9092,CONTROLLER://:9093,", "advertised.listeners=", "advertised.listeners=PLAINTEXT://h:1", "advertised.listeners=PLAINTEXT://h:1,", "advertised.listeners=PLAINTEXT://0.0.0.0:1", "advertised.listeners=IN://h:1",
        "advertised.listeners=PLAINTEXT://h:1,IN://h:1", "advertised.listeners=PLAINTEXT://h:1,CONTROLLER://h:1", "advertised.listeners=CONTROLLER://h:1", "advertised.listeners=PLAINTEXT://:1", "advertised.listeners=PLAINTEXT://h:1,CONTROLLER://0.0.0.0:1",
        "listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093", "listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093;advertised.listeners=PLAINTEXT://h:9092", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:X", "listener.security.protocol.map=PLAINTEXT", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER", "listener.security.protocol.map=plaintext:plaintext,controller:Plaintext",
        "listener.security.protocol.map=", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,,CONTROLLER:PLAINTEXT", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,,", "-listener.security.protocol.map",
        "-listener.security.protocol.map;listeners=PLAINTEXT://:9092,SSL://:9094,CONTROLLER://:9093", "-listener.security.protocol.map;listeners=PLAINTEXT", "inter.broker.listener.name=IN", "inter.broker.listener.name=PLAINTEXT", "inter.broker.listener.name=plaintext",
        "inter.broker.listener.name=OUT", "inter.broker.listener.name=PLAINTEXT;security.inter.broker.protocol=PLAINTEXT", "inter.broker.listener.name=CONTROLLER", "inter.broker.listener.name=", "security.inter.broker.protocol=SSL", "security.inter.broker.protocol=ssl",
        "inter.broker.listener.name=IN;listeners=PLAINTEXT://:9092,CONTROLLER://:9093,IN://:9094", "listeners=IN://:9092,CONTROLLER://:9093", "early.start.listeners=PLAINTEXT", "early.start.listeners=OTHER", "early.start.listeners=", "log.dir=", "log.dirs=", "log.dirs=/a,/a", "log.dirs=/a,,/b",
        "log.dir=/a,/b", "cordoned.log.dirs=/a", "log.dirs=/a,/b;cordoned.log.dirs=/b", "cordoned.log.dirs=*", "cordoned.log.dirs=*,/a", "log.dirs=/a;cordoned.log.dirs=/b,/c", "log.roll.ms=0", "log.roll.ms=1", "log.roll.hours=0", "log.roll.jitter.ms=-1", "log.retention.ms=0",
        "log.retention.ms=-1", "log.retention.ms=-5", "log.retention.minutes=0", "log.retention.minutes=-7", "log.retention.hours=0", "log.retention.hours=-1", "log.retention.ms=5;log.retention.hours=0", "log.cleaner.threads=200", "log.cleaner.threads=127", "log.cleaner.threads=128",
        "log.cleaner.dedupe.buffer.size=1048576", "log.cleaner.threads=0", "replica.fetch.wait.max.ms=30001", "replica.fetch.wait.max.ms=30000", "replica.lag.time.max.ms=100", "queued.max.request.bytes=5", "queued.max.request.bytes=0",
        "queued.max.request.bytes=104857600", "max.connections.per.ip=0", "max.connections.per.ip=0;max.connections.per.ip.overrides=h:1", "max.connections.per.ip.overrides=h", "max.connections.per.ip.overrides=h:x", "max.connections.per.ip.overrides=h i:1",
        "max.connections.per.ip.overrides=127.0.0.1:5, ::1:6", "max.connections.per.ip.overrides=:5", "connection.failed.authentication.delay.ms=600000", "connections.max.idle.ms=-1", "connections.max.idle.ms=100", "group.coordinator.rebalance.protocols=consumer",
        "group.coordinator.rebalance.protocols=classic", "group.coordinator.rebalance.protocols=", "group.coordinator.rebalance.protocols=Classic", "group.consumer.max.heartbeat.interval.ms=4000", "group.consumer.heartbeat.interval.ms=4000", "group.consumer.heartbeat.interval.ms=20000",
        "group.consumer.session.timeout.ms=1000", "group.consumer.session.timeout.ms=100000", "group.consumer.min.session.timeout.ms=70000", "group.consumer.heartbeat.interval.ms=45000;group.consumer.max.heartbeat.interval.ms=50000", "group.share.session.timeout.ms=1000",
        "group.share.heartbeat.interval.ms=1", "group.streams.session.timeout.ms=1", "group.streams.num.standby.replicas=3", "group.consumer.assignment.interval.ms=20000", "group.consumer.min.assignment.interval.ms=2000", "group.share.max.assignment.interval.ms=500",
        "group.consumer.assignors=uniform", "group.consumer.assignors=org.apache.kafka.coordinator.group.assignor.RangeAssignor", "group.share.delivery.count.limit=6;group.share.max.delivery.count.limit=5", "group.share.max.share.sessions=100;group.share.max.size=200",
        "group.share.partition.max.record.locks=5000", "group.share.record.lock.duration.ms=2000", "group.share.record.lock.duration.ms=100000", "message.max.bytes=-1", "num.partitions=0", "num.partitions=2147483648", "compression.type=brotli", "log.cleanup.policy=", "log.cleanup.policy=delete,delete",
        "log.segment.bytes=100", "offsets.topic.replication.factor=40000", "unclean.leader.election.enable=maybe", "num.partitions=0;log.segment.bytes=1;node.id=x", "unknown.key=1", "log.roll.ms=", "log.message.timestamp.type=x", "message.max.bytes= 5 ",
        "log.local.retention.ms=5;log.retention.ms=1", "metadata.log.segment.bytes=1", "node.id=1;broker.id=x", "listener.name.plaintext.max.connections=x", "num.replica.fetchers=0",
    };

    public static void main(String[] args) throws Exception {
        System.out.println("# settings laid over: " + String.join(";", BASE) + "; and `=` or `!` with the message of Apache Kafka 4.3.1");
        for (String settings : CASES) {
            Map<String, String> props = new HashMap<>();
            for (String base : BASE) props.put(base.split("=", 2)[0], base.split("=", 2)[1]);
            for (String setting : settings.split(";")) {
                if (setting.startsWith("-")) props.remove(setting.substring(1));
                else if (!setting.isEmpty()) props.put(setting.split("=", 2)[0], setting.split("=", 2)[1]);
            }
            String result;
            try {
                new kafka.server.KafkaConfig(props, false);
                result = "=";
            } catch (Throwable e) {
                result = "!" + e.getMessage();
            }
            System.out.println(settings + "\t" + result.replace("\n", "\\n"));
        }
    }
}
