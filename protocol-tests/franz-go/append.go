package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// appendEverywhere creates a topic and writes to every partition of every topic that is not internal: as an idempotent producer, then in a
// transaction that is aborted and in one that is committed. The transactional id is always the same: whoever serves next takes it over.
func appendEverywhere(ctx context.Context, bootstrap string, arguments []string) error {
	topic := arguments[0]
	c, a, err := client(bootstrap)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := createTopic(ctx, a, topic, 2, nil); err != nil {
		return err
	}
	topics, err := a.ListTopics(ctx)
	if err != nil {
		return err
	}
	records := func(what string) []*kgo.Record {
		var records []*kgo.Record
		topics.EachPartition(func(partition kadm.PartitionDetail) {
			for n := range 2 {
				key := []byte(fmt.Sprintf("%s %d", topic, n))
				records = append(records, &kgo.Record{Topic: partition.Topic, Partition: partition.Partition, Key: key, Value: []byte(what)})
			}
		})
		return records
	}
	if err := c.ProduceSync(ctx, records("plain")...).FirstErr(); err != nil {
		return fmt.Errorf("idempotent: %w", err)
	}
	t, _, err := client(bootstrap, kgo.TransactionalID("appends everywhere"))
	if err != nil {
		return err
	}
	defer t.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := t.BeginTransaction(); err != nil {
			return err
		}
		if err := t.ProduceSync(ctx, records(fmt.Sprintf("in a transaction, %v", end))...).FirstErr(); err != nil {
			return fmt.Errorf("in a transaction: %w", err)
		}
		if err := t.EndTransaction(ctx, end); err != nil {
			return fmt.Errorf("end of a transaction: %w", err)
		}
	}
	return nil
}
