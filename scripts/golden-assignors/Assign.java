import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.zip.CRC32C;

/** Plays the lives of random groups through Kafka's server-side assignors, and prints what happens and who then has what. */
public class Assign {
    static Random random;
    record Member(String instance, TreeSet<Integer> topics) {}

    static Uuid id(Random r) { return new Uuid(r.nextLong(), r.nextLong()); }

    static String ranges(Collection<Integer> set) {
        TreeSet<Integer> sorted = new TreeSet<>(set);
        StringBuilder out = new StringBuilder();
        Integer start = null, last = null;
        for (Integer p : sorted) {
            if (last != null && p == last + 1) { last = p; continue; }
            if (last != null) { if (out.length() > 0) out.append(','); out.append(start.equals(last) ? "" + start : start + "-" + last); }
            start = p; last = p;
        }
        if (last != null) { if (out.length() > 0) out.append(','); out.append(start.equals(last) ? "" + start : start + "-" + last); }
        return out.toString();
    }

    static String text(TreeMap<String, TreeMap<Integer, TreeSet<Integer>>> assignment) {
        StringBuilder out = new StringBuilder();
        for (var m : assignment.entrySet()) {
            if (out.length() > 0) out.append(' ');
            out.append(m.getKey()).append('=');
            boolean first = true;
            for (var t : m.getValue().entrySet()) {
                if (!first) out.append(';');
                first = false;
                out.append(t.getKey()).append(':').append(ranges(t.getValue()));
            }
        }
        return out.toString();
    }

    static String newId() {
        switch (random.nextInt(3)) {
            case 0: return "m" + random.nextInt(10000);
            case 1: return "consumer-" + random.nextInt(100) + "-" + Integer.toHexString(random.nextInt(65536));
            default: return new Uuid(random.nextLong(), random.nextLong()).toString();
        }
    }

    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        int scenarios = Integer.parseInt(args[0]);
        for (int s = 0; s < scenarios; s++) {
            random = new Random(4711 + s);
            ConsumerGroupPartitionAssignor assignor = s % 4 == 3 ? new RangeAssignor() : new UniformAssignor();
            boolean homogeneous = random.nextInt(5) < 2;
            boolean large = s % 15 == 14;
            int topicCount = large ? 5 + random.nextInt(20) : 1 + random.nextInt(6);
            List<Uuid> ids = new ArrayList<>();
            List<Integer> counts = new ArrayList<>();
            Map<Uuid, Integer> index = new HashMap<>();
            for (int t = 0; t < topicCount; t++) {
                ids.add(id(random)); index.put(ids.get(t), t);
                counts.add(1 + random.nextInt(large ? 100 : 24));
            }
            TreeSet<Integer> common = new TreeSet<>();
            for (int t = 0; t < topicCount; t++) if (random.nextInt(4) > 0) common.add(t);
            TreeMap<String, Member> members = new TreeMap<>();
            TreeMap<String, TreeMap<Integer, TreeSet<Integer>>> targets = new TreeMap<>();
            out.append("group ").append(assignor.name());
            for (Uuid u : ids) out.append(' ').append(u);
            out.append('\n');
            int steps = large ? 5 : 7;
            for (int step = 0; step < steps; step++) {
                // What happens: joins, leaves, replacements of static members, other subscriptions, more partitions.
                StringBuilder events = new StringBuilder();
                int n = large ? 60 : 1 + random.nextInt(3);
                if (step > 0 && large) n = 5;
                for (int e = 0; e < n; e++) {
                    int what = step == 0 ? 0 : random.nextInt(8);
                    if (what <= 2 || members.isEmpty()) {
                        String m = newId();
                        if (members.containsKey(m)) continue;
                        String instance = random.nextInt(4) == 0 ? "i" + random.nextInt(10000000) : null;
                        TreeSet<Integer> topics = homogeneous ? new TreeSet<>(common) : subscription(topicCount);
                        members.put(m, new Member(instance, topics));
                        events.append(" join ").append(m).append(' ').append(instance == null ? "-" : instance).append(' ').append(ranges(topics).isEmpty() ? "-" : ranges(topics));
                    } else if (what <= 4) {
                        String m = new ArrayList<>(members.keySet()).get(random.nextInt(members.size()));
                        members.remove(m); targets.remove(m);
                        events.append(" leave ").append(m);
                    } else if (what == 5) {
                        String m = new ArrayList<>(members.keySet()).get(random.nextInt(members.size()));
                        String to = newId();
                        if (members.containsKey(to)) continue;
                        members.put(to, members.remove(m));
                        if (targets.containsKey(m)) targets.put(to, targets.remove(m));
                        events.append(" replace ").append(m).append(' ').append(to);
                    } else if (what == 6) {
                        int t = random.nextInt(topicCount);
                        counts.set(t, counts.get(t) + 1 + random.nextInt(8));
                    } else if (homogeneous) {
                        // Everyone changes.
                        common = subscription(topicCount);
                        for (String m : new ArrayList<>(members.keySet())) {
                            members.put(m, new Member(members.get(m).instance, new TreeSet<>(common)));
                            events.append(" subscribe ").append(m).append(' ').append(ranges(common).isEmpty() ? "-" : ranges(common));
                        }
                    } else {
                        String m = new ArrayList<>(members.keySet()).get(random.nextInt(members.size()));
                        TreeSet<Integer> topics = subscription(topicCount);
                        members.put(m, new Member(members.get(m).instance, topics));
                        events.append(" subscribe ").append(m).append(' ').append(ranges(topics).isEmpty() ? "-" : ranges(topics));
                    }
                }
                Map<String, MemberSubscriptionAndAssignmentImpl> specs = new HashMap<>();
                Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
                Set<TreeSet<Integer>> subscriptions = new HashSet<>();
                for (var m : members.entrySet()) {
                    Set<Uuid> subscribed = new HashSet<>();
                    for (int t : m.getValue().topics) subscribed.add(ids.get(t));
                    subscriptions.add(m.getValue().topics);
                    Map<Uuid, Set<Integer>> partitions = new HashMap<>();
                    // Topics in the order of their ids, as ties in a slot go by age.
                    List<Uuid> order = new ArrayList<>();
                    for (int t : targets.getOrDefault(m.getKey(), new TreeMap<>()).keySet()) order.add(ids.get(t));
                    order.sort(Comparator.comparing(Assign::hex));
                    for (Uuid u : order) {
                        TreeSet<Integer> set = targets.get(m.getKey()).get(index.get(u));
                        partitions.put(u, new HashSet<>(new ArrayList<>(set)));
                        for (int p : set) inverted.computeIfAbsent(u, __ -> new HashMap<>()).put(p, m.getKey());
                    }
                    specs.put(m.getKey(), new MemberSubscriptionAndAssignmentImpl(
                        Optional.empty(), Optional.ofNullable(m.getValue().instance), sorted(subscribed), new Assignment(partitions)));
                }
                SubscriptionType type = subscriptions.size() <= 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
                GroupAssignment result = assignor.assign(new GroupSpecImpl(specs, type, inverted), new SubscribedTopicDescriber() {
                    public int numPartitions(Uuid topic) { return index.containsKey(topic) ? counts.get(index.get(topic)) : -1; }
                    public Set<String> racksForPartition(Uuid topic, int partition) { return Set.of(); }
                });
                TreeMap<String, TreeMap<Integer, TreeSet<Integer>>> next = new TreeMap<>();
                for (String m : members.keySet()) {
                    TreeMap<Integer, TreeSet<Integer>> mine = new TreeMap<>();
                    MemberAssignment got = result.members().get(m);
                    if (got != null) for (var t : got.partitions().entrySet()) if (!t.getValue().isEmpty()) mine.put(index.get(t.getKey()), new TreeSet<>(t.getValue()));
                    next.put(m, mine);
                }
                targets = next;
                StringBuilder c = new StringBuilder();
                for (int x : counts) { if (c.length() > 0) c.append(','); c.append(x); }
                out.append("step ").append(type == SubscriptionType.HOMOGENEOUS ? "=" : "~").append(' ').append(c).append(events).append('\n');
                String text = text(targets);
                if (large) {
                    CRC32C crc = new CRC32C(); crc.update(text.getBytes(StandardCharsets.UTF_8));
                    out.append("crc ").append(crc.getValue()).append('\n');
                } else out.append("is ").append(text).append('\n');
            }
        }
        System.out.print(out);
    }

    static String hex(Uuid u) { return String.format("%016x%016x", u.getMostSignificantBits(), u.getLeastSignificantBits()); }

    /** A set in the order of topic ids, as ties in a slot go by age. */
    static Set<Uuid> sorted(Set<Uuid> set) {
        TreeSet<Uuid> sorted = new TreeSet<>(Comparator.comparing(Assign::hex));
        sorted.addAll(set);
        return sorted;
    }

    static TreeSet<Integer> subscription(int topicCount) {
        TreeSet<Integer> topics = new TreeSet<>();
        int style = random.nextInt(4);
        for (int t = 0; t < topicCount; t++) if (style == 0 ? random.nextInt(10) == 0 : style == 1 ? random.nextBoolean() : random.nextInt(4) > 0) topics.add(t);
        return topics;
    }
}
