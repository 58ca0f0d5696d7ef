package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// member is one member of a group. members.py says what it is called with, what it prints and what it obeys.
func member(ctx context.Context, bootstrap string, arguments []string) error {
	options := map[string]string{}
	for _, argument := range arguments {
		key, value, _ := strings.Cut(argument, "=")
		options[key] = value
	}
	c, err := kgo.NewClient(append(memberOptions(options), kgo.SeedBrokers(bootstrap))...)
	if err != nil {
		return err
	}
	err = consume(ctx, c)
	c.Close()
	fmt.Println("closed")
	return err
}

func memberOptions(options map[string]string) []kgo.Opt {
	session, _ := strconv.Atoi(options["session"])
	balancers := map[string]kgo.GroupBalancer{
		"": kgo.CooperativeStickyBalancer(), "range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "uniform": kgo.StickyBalancer(),
	}
	if options["protocol"] == "consumer" {
		balancers[""] = kgo.StickyBalancer()
	}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(options["group"]), kgo.ClientID(options["id"]), kgo.Balancers(balancers[options["assignor"]]),
		kgo.SessionTimeout(time.Duration(session) * time.Millisecond), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.MetadataMaxAge(500 * time.Millisecond),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			fmt.Println("assigned", names(partitions))
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, c *kgo.Client, partitions map[string][]int32) {
			if err := c.CommitUncommittedOffsets(ctx); err != nil {
				fmt.Println("error commit on revocation:", err)
			}
			fmt.Println("revoked", names(partitions))
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			fmt.Println("lost", names(partitions))
		}),
	}
	if options["protocol"] == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	if instance := options["instance"]; instance != "" {
		opts = append(opts, kgo.InstanceID(instance))
	}
	if pattern := options["pattern"]; pattern != "" {
		return append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics(pattern))
	}
	return append(opts, kgo.ConsumeTopics(strings.Split(options["topics"], ",")...))
}

func consume(ctx context.Context, c *kgo.Client) error {
	commands := make(chan string)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			commands <- lines.Text()
		}
		commands <- "close"
	}()
	for {
		wait, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		fetched := c.PollFetches(wait)
		cancel()
		for _, failed := range fetched.Errors() {
			if !errors.Is(failed.Err, context.DeadlineExceeded) {
				fmt.Println("error", failed.Topic, failed.Partition, failed.Err)
			}
		}
		for record := range fetched.RecordsAll() {
			fmt.Println("record", record.Topic, record.Partition, record.Offset, string(record.Value))
		}
		c.AllowRebalance()
		select {
		case command := <-commands:
			if command == "close" {
				return nil // OnPartitionsRevoked commits
			}
			if err := c.CommitUncommittedOffsets(ctx); err != nil {
				return err
			}
			fmt.Println("committed")
		default:
		}
	}
}

func names(partitions map[string][]int32) string {
	var words []string
	for topic, numbers := range partitions {
		for _, partition := range numbers {
			words = append(words, fmt.Sprintf("%s:%d", topic, partition))
		}
	}
	return strings.Join(words, " ")
}
