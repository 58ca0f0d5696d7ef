import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * One member of a group, by Kafka's Java consumer. members.py says what it is called with, what it prints and what it obeys.
 */
public final class GroupMember {
    private static final PrintStream OUT = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, StandardCharsets.UTF_8);

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            options.put(pair[0], pair[1]);
        }
        int status = 0;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties(options))) {
            run(consumer, options);
        } catch (Exception e) {
            OUT.println("error " + e.getClass().getSimpleName() + ": " + e.getMessage());
            status = 1;
        }
        OUT.println("closed");
        Runtime.getRuntime().halt(status);
    }

    private static Properties properties(Map<String, String> options) {
        Properties properties = new Properties();
        boolean classic = options.get("protocol").equals("classic");
        properties.put("bootstrap.servers", options.get("bootstrap"));
        properties.put("group.id", options.get("group"));
        properties.put("group.protocol", options.get("protocol"));
        properties.put("client.id", options.get("id"));
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("metadata.max.age.ms", "500");
        properties.put("fetch.max.wait.ms", "100");
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        if (classic) {
            properties.put("session.timeout.ms", options.get("session"));
            properties.put("heartbeat.interval.ms", "200");
        }
        if (options.containsKey("instance")) properties.put("group.instance.id", options.get("instance"));
        if (options.containsKey("assignor"))
            properties.put(classic ? "partition.assignment.strategy" : "group.remote.assignor", options.get("assignor"));
        return properties;
    }

    private static void run(KafkaConsumer<String, String> consumer, Map<String, String> options) {
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                OUT.println("assigned " + names(partitions));
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                consumer.commitSync();
                OUT.println("revoked " + names(partitions));
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                OUT.println("lost " + names(partitions));
            }
        };
        if (options.containsKey("topics")) consumer.subscribe(Arrays.asList(options.get("topics").split(",")), listener);
        else if (options.get("protocol").equals("consumer")) consumer.subscribe(new SubscriptionPattern(options.get("pattern")), listener);
        else consumer.subscribe(Pattern.compile(options.get("pattern")), listener);

        BlockingQueue<String> commands = commands();
        for (boolean wanted = true; wanted; ) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50)))
                OUT.println("record " + record.topic() + " " + record.partition() + " " + record.offset() + " " + record.value());
            for (String command; (command = commands.poll()) != null; ) {
                if (command.equals("commit")) {
                    consumer.commitSync();
                    OUT.println("committed");
                }
                wanted = wanted && !command.equals("close");
            }
        }
    }

    private static String names(Collection<TopicPartition> partitions) {
        return partitions.stream().map(p -> p.topic() + ":" + p.partition()).collect(Collectors.joining(" "));
    }

    /** The lines of standard input, and "close" at its end. */
    private static BlockingQueue<String> commands() {
        BlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
                for (String line; (line = in.readLine()) != null; ) commands.add(line);
            } catch (IOException ignored) {
                // as its end
            }
            commands.add("close");
        });
        reader.setDaemon(true);
        reader.start();
        return commands;
    }
}
