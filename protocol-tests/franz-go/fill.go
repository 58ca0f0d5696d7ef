package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fill writes topics with all that a log can hold without transactions, for the other broker to read.
func fill(ctx context.Context, bootstrap string, _ []string) error {
	c, a, err := client(bootstrap)
	if err != nil {
		return err
	}
	defer c.Close()
	small := map[string]string{"segment.bytes": "1048576", "index.interval.bytes": "1000"}
	topics := []struct {
		name       string
		partitions int32
		configs    map[string]string
	}{
		{"filled", 2, small}, {"filled-append-time", 1, map[string]string{"message.timestamp.type": "LogAppendTime"}},
		{"filled-recompressed", 1, map[string]string{"compression.type": "zstd"}},
		{"filled-decompressed", 1, map[string]string{"compression.type": "uncompressed"}},
		{"filled-deleted", 1, small}, {"filled-empty", 3, nil}, {"filled.with_every-kind", 1, nil},
	}
	for _, topic := range topics {
		configs := map[string]*string{"retention.ms": kadm.StringPtr("-1")}
		for key, value := range topic.configs {
			configs[key] = &value
		}
		if err := createTopic(ctx, a, topic.name, topic.partitions, configs); err != nil {
			return err
		}
	}
	for _, codec := range codecs {
		for _, topic := range []string{"filled", "filled-append-time", "filled-recompressed", "filled-decompressed", "filled-deleted", "filled.with_every-kind"} {
			if err := fillBatches(ctx, bootstrap, topic, codec.codec); err != nil {
				return fmt.Errorf("%s with %s: %w", topic, codec.name, err)
			}
		}
	}
	if err := fillOdd(ctx, c); err != nil {
		return err
	}
	ends, err := a.ListEndOffsets(ctx, "filled-deleted")
	if err != nil {
		return err
	}
	end, _ := ends.Lookup("filled-deleted", 0)
	var deletion kadm.Offsets
	deletion.Add(kadm.Offset{Topic: "filled-deleted", Partition: 0, At: end.Offset/2 + 3})
	deleted, err := a.DeleteRecords(ctx, deletion)
	if err == nil {
		err = deleted.Error()
	}
	return err
}

// fillBatches writes some batches of different sizes to partition 0, every second time without idempotence.
func fillBatches(ctx context.Context, bootstrap, topic string, codec kgo.CompressionCodec) error {
	random := rand.New(rand.NewSource(1))
	for round, size := range []int{1, 10, 400} {
		options := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(50 * time.Millisecond)}
		if round == 1 {
			options = append(options, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
		}
		producer, _, err := client(bootstrap, options...)
		if err != nil {
			return err
		}
		for batch := range 5 {
			var records []*kgo.Record
			for n := range size {
				record := sample(topic, 0, fmt.Sprintf("%d %d %d", round, batch, n))
				if n%2 == 0 {
					record.Value = make([]byte, random.Intn(1500))
					random.Read(record.Value[len(record.Value)/2:]) // half of it does not compress
				}
				records = append(records, record)
			}
			if err := producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
				producer.Close()
				return err
			}
		}
		producer.Close()
	}
	return nil
}

// fillOdd writes a large record and timestamps that go back to partition 1.
func fillOdd(ctx context.Context, c *kgo.Client) error {
	for n, timestamp := range []int64{1_700_000_000_000, 1_600_000_000_000, 1_700_000_000_001, 0} {
		record := &kgo.Record{Topic: "filled", Partition: 1, Timestamp: time.UnixMilli(timestamp), Value: bytes.Repeat([]byte{byte(n)}, n*300_000)}
		if err := c.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}
