// Command franz-go is what the tests need of Go: franz-go of 2026, and Sarama of 2019.
//
//	franz-go COMMAND BOOTSTRAP [ARGUMENT...]
//
// It exits with status 1 and says why when the broker does not do what it must.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var commands = map[string]func(ctx context.Context, bootstrap string, arguments []string) error{
	"admin":      admin,
	"round-trip": roundTrip,
	"sessions":   sessions,
	"fill":       fill,
	"append":     appendEverywhere,
	"offsets":    offsets,
	"write":      write,
	"verify":     verify,
	"sarama":     saramaRoundTrip,
	"member":     member,
}

func main() {
	if len(os.Args) < 3 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: franz-go COMMAND BOOTSTRAP [ARGUMENT...]")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := commands[os.Args[1]](ctx, os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// client gives a client and its admin side.
func client(bootstrap string, options ...kgo.Opt) (*kgo.Client, *kadm.Client, error) {
	options = append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner())}, options...)
	c, err := kgo.NewClient(options...)
	if err != nil {
		return nil, nil, err
	}
	return c, kadm.NewClient(c), nil
}

// eventually repeats a check that may be true a little later only: what the broker answers before it is true everywhere.
func eventually(check func() error) error {
	var err error
	for range 150 {
		if err = check(); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// createTopic makes a topic and waits until its partitions serve.
func createTopic(ctx context.Context, a *kadm.Client, topic string, partitions int32, configs map[string]*string) error {
	if _, err := a.CreateTopic(ctx, partitions, 1, configs, topic); err != nil {
		return fmt.Errorf("create %s: %w", topic, err)
	}
	return eventually(func() error {
		ends, err := a.ListEndOffsets(ctx, topic)
		if err == nil {
			err = ends.Error()
		}
		if err == nil && len(ends[topic]) != int(partitions) {
			err = fmt.Errorf("%s has %d partitions", topic, len(ends[topic]))
		}
		return err
	})
}
