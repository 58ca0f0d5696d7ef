// Command load puts load on a broker and measures it. scripts/bench-vs-kafka, scripts/bench-groups and
// scripts/bench-transactions run it.
//
//	load produce BOOTSTRAP TOPIC [-size 1024] [-partitions 1] [-connections 4] [-acks 1] [-megabytes 400]
//	load fetch   BOOTSTRAP TOPIC [-consumers 1]
//	load latency BOOTSTRAP TOPIC [-size 1024] [-rate 1000] [-acks 1] [-seconds 10] [-existing]
//	load rebalance  BOOTSTRAP TOPIC -protocol classic|consumer [-members 100] [-partitions 1] [-rounds 5]
//	load heartbeats BOOTSTRAP TOPIC -protocol classic|consumer -pid BROKER [-members 100] [-partitions 1] [-seconds 10]
//	load commits    BOOTSTRAP TOPIC -pid BROKER [-partitions 1] [-connections 4] [-seconds 10]
//	load transactions BOOTSTRAP TOPIC -pid BROKER [-partitions 1] [-connections 4] [-seconds 10] [-size 1024]
//	load idempotence BOOTSTRAP TOPIC -pid BROKER [-partitions 1] [-connections 4] [-size 1024] [-records 16] [-megabytes 400] [-rounds 5]
//	load fill-offsets, await-offsets BOOTSTRAP TOPIC [-groups 10000] [-partitions 1] [-connections 4]
//
// It prints one line of JSON. All but latency speak the protocol by hand, with requests made beforehand and answers hardly looked at, so
// that the broker and not the client is what is measured; latency is franz-go's producer and consumer.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	bootstrap, topic, protocol                                               string
	size, partitions, connections, consumers, acks, megabytes, rate, seconds int
	members, groups, rounds, pid, records                                    int
	existing                                                                 bool
}

var commands = map[string]func(context.Context, options) (map[string]any, error){
	"produce": produce, "fetch": fetch, "latency": latency,
	"rebalance": rebalance, "heartbeats": heartbeats, "commits": commits, "fill-offsets": fillOffsets, "await-offsets": awaitOffsets,
	"transactions": transactions, "idempotence": idempotence,
}

func main() {
	if len(os.Args) < 4 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: load COMMAND BOOTSTRAP TOPIC [-flag value]...")
		os.Exit(2)
	}
	o := options{bootstrap: os.Args[2], topic: os.Args[3]}
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	flags.IntVar(&o.size, "size", 1024, "bytes of a record's value")
	flags.IntVar(&o.partitions, "partitions", 1, "partitions of the topic, which is made")
	flags.IntVar(&o.connections, "connections", 4, "producing connections; each writes to its share of the partitions")
	flags.IntVar(&o.consumers, "consumers", 1, "connections that each read the whole topic")
	flags.IntVar(&o.acks, "acks", 1, "0, 1 or -1")
	flags.IntVar(&o.megabytes, "megabytes", 400, "to produce in all")
	flags.IntVar(&o.rate, "rate", 1000, "records a second")
	flags.IntVar(&o.seconds, "seconds", 10, "to go on for")
	flags.StringVar(&o.protocol, "protocol", "classic", "of the groups: classic or consumer")
	flags.IntVar(&o.members, "members", 100, "of groups")
	flags.IntVar(&o.groups, "groups", 10_000, "with committed offsets")
	flags.IntVar(&o.rounds, "rounds", 5, "that a member joins and leaves, or a load is repeated")
	flags.IntVar(&o.records, "records", 16, "of a batch")
	flags.BoolVar(&o.existing, "existing", false, "the topic is there, and what it holds does not count")
	flags.IntVar(&o.pid, "pid", 0, "the broker's process, whose CPU time counts")
	flags.Parse(os.Args[4:])

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	result, err := commands[os.Args[1]](ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(result)
}

// createTopic makes the topic and waits until all its partitions serve.
func createTopic(ctx context.Context, o options) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(o.bootstrap))
	if err != nil {
		return err
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	if _, err := admin.CreateTopic(ctx, int32(o.partitions), 1, nil, o.topic); err != nil {
		return err
	}
	for {
		ends, err := admin.ListEndOffsets(ctx, o.topic)
		if err == nil && ends.Error() == nil && len(ends[o.topic]) == o.partitions {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve: %w", o.topic, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
