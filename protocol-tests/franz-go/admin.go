package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// admin goes through the life of a topic by the admin client.
func admin(ctx context.Context, bootstrap string, arguments []string) error {
	topic := arguments[0]
	c, a, err := client(bootstrap)
	if err != nil {
		return err
	}
	defer c.Close()

	if err := createTopic(ctx, a, topic, 2, map[string]*string{"retention.ms": kadm.StringPtr("3600000")}); err != nil {
		return err
	}
	if _, err := a.CreateTopic(ctx, 2, 1, nil, topic); !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("created twice: %v", err)
	}
	if resp, err := a.ValidateCreateTopics(ctx, 2, 1, nil, topic+"-validated"); err != nil || resp.Error() != nil {
		return fmt.Errorf("validate: %v, %v", err, resp.Error())
	}
	listed, err := a.ListTopics(ctx)
	if err != nil || !listed.Has(topic) || listed.Has(topic+"-validated") {
		return fmt.Errorf("listed: %v, %v", listed.Names(), err)
	}
	if id := listed[topic].ID; id == (kadm.TopicID{}) {
		return errors.New("the topic has no id")
	}

	set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr("5000")}, {Op: kadm.DeleteConfig, Name: "retention.ms"}}
	if altered, err := a.AlterTopicConfigs(ctx, set, topic); err != nil || altered[0].Err != nil {
		return fmt.Errorf("alter configs: %v, %v", err, altered)
	}
	if err := eventually(func() error { return hasConfigs(ctx, a, topic, "5000", "604800000") }); err != nil {
		return err
	}

	if added, err := a.CreatePartitions(ctx, 1, topic); err != nil || added.Error() != nil {
		return fmt.Errorf("create partitions: %v, %v", err, added.Error())
	}
	if err := produceTimed(ctx, c, a, topic); err != nil {
		return err
	}

	var deletion kadm.Offsets
	deletion.Add(kadm.Offset{Topic: topic, Partition: 2, At: 1})
	if deleted, err := a.DeleteRecords(ctx, deletion); err != nil || deleted.Error() != nil {
		return fmt.Errorf("delete records: %v, %v", err, deleted.Error())
	}
	starts, err := a.ListStartOffsets(ctx, topic)
	if at, _ := starts.Lookup(topic, 2); err != nil || at.Offset != 1 {
		return fmt.Errorf("start offset %v, %v", at, err)
	}

	if deleted, err := a.DeleteTopics(ctx, topic); err != nil || deleted.Error() != nil {
		return fmt.Errorf("delete: %v, %v", err, deleted.Error())
	}
	return eventually(func() error {
		listed, err := a.ListTopics(ctx)
		if err == nil && listed.Has(topic) {
			err = errors.New("the topic is still listed")
		}
		return err
	})
}

func hasConfigs(ctx context.Context, a *kadm.Client, topic, maxMessageBytes, retention string) error {
	resources, err := a.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	got := map[string]string{}
	for _, config := range resources[0].Configs {
		got[config.Key] = config.MaybeValue()
	}
	if got["max.message.bytes"] != maxMessageBytes || got["retention.ms"] != retention {
		return fmt.Errorf("configs: %v", got)
	}
	return nil
}

// produceTimed fills partition 2 and asks for its offsets by every kind of time.
func produceTimed(ctx context.Context, c *kgo.Client, a *kadm.Client, topic string) error {
	begun := time.Now().Truncate(time.Millisecond)
	for i := range 5 {
		record := &kgo.Record{Topic: topic, Partition: 2, Value: []byte("x"), Timestamp: begun.Add(time.Duration(i) * time.Second)}
		if err := eventually(func() error { return c.ProduceSync(ctx, record).FirstErr() }); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
	}
	check := func(what string, want int64, listed kadm.ListedOffsets, err error) error {
		if at, _ := listed.Lookup(topic, 2); err != nil || at.Err != nil || at.Offset != want {
			return fmt.Errorf("%s: offset %v, not %d (%v)", what, at.Offset, want, err)
		}
		return nil
	}
	ends, err := a.ListEndOffsets(ctx, topic)
	committed, err2 := a.ListCommittedOffsets(ctx, topic)
	after, err3 := a.ListOffsetsAfterMilli(ctx, begun.UnixMilli()+1500, topic)
	latest, err4 := a.ListMaxTimestampOffsets(ctx, topic)
	return errors.Join(check("end", 5, ends, err), check("last stable", 5, committed, err2), check("by time", 2, after, err3),
		check("max timestamp", 4, latest, err4))
}
