import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;

/**
 * Moves replicas of broker 1 by the Java admin client, which is what kafka-reassign-partitions does with log directories.
 *
 * <p>{@code MoveReplicas --bootstrap-server ADDRESS (start|finish) DIRECTORY TOPIC PARTITION...}: begins to move them; {@code finish} also waits until they
 * are there. Prints {@code TOPIC-PARTITION CURRENT FUTURE LAG} of each.
 */
public final class MoveReplicas {
    public static void main(String[] arguments) throws Exception {
        String directory = arguments[3];
        Collection<TopicPartitionReplica> replicas = new ArrayList<>();
        for (int i = 5; i < arguments.length; i++) replicas.add(new TopicPartitionReplica(arguments[4], Integer.parseInt(arguments[i]), 1));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[1]))) {
            Map<TopicPartitionReplica, String> wanted = new HashMap<>();
            for (TopicPartitionReplica replica : replicas) wanted.put(replica, directory);
            admin.alterReplicaLogDirs(wanted).all().get();
            while (true) {
                var there = admin.describeReplicaLogDirs(replicas).all().get();
                List<String> lines = new ArrayList<>();
                boolean done = true;
                for (TopicPartitionReplica replica : replicas) {
                    var info = there.get(replica);
                    String current = info.getCurrentReplicaLogDir();
                    done &= directory.equals(current) && info.getFutureReplicaLogDir() == null;
                    lines.add(new TopicPartition(replica.topic(), replica.partition()) + " " + current + " "
                        + info.getFutureReplicaLogDir() + " " + info.getFutureReplicaOffsetLag());
                }
                if (done || arguments[2].equals("start")) {
                    lines.forEach(System.out::println);
                    return;
                }
                Thread.sleep(50);
            }
        }
    }
}
