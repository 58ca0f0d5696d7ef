package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = []struct {
	name  string
	codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()}, {"gzip", kgo.GzipCompression()}, {"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()},
}

// roundTrip produces with every codec (idempotent, as is franz-go's default) and reads all back from partitions it names itself.
func roundTrip(ctx context.Context, bootstrap string, arguments []string) error {
	const partitions, each = 4, 500
	topic := arguments[0]
	c, a, err := client(bootstrap)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := createTopic(ctx, a, topic, partitions, nil); err != nil {
		return err
	}
	sent := make([][]*kgo.Record, partitions)
	for _, codec := range codecs {
		producer, _, err := client(bootstrap, kgo.ProducerBatchCompression(codec.codec), kgo.ProducerLinger(5*time.Millisecond))
		if err != nil {
			return err
		}
		var batch []*kgo.Record
		for n := range partitions * each {
			record := sample(topic, int32(n%partitions), fmt.Sprintf("%s %d", codec.name, n))
			batch = append(batch, record)
			sent[n%partitions] = append(sent[n%partitions], record)
		}
		err = producer.ProduceSync(ctx, batch...).FirstErr()
		producer.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", codec.name, err)
		}
	}
	return compare(ctx, bootstrap, topic, sent)
}

// sample makes a record with everything in it: a key or none, values of all sizes, headers twice, empty and null.
func sample(topic string, partition int32, text string) *kgo.Record {
	record := &kgo.Record{Topic: topic, Partition: partition, Value: bytes.Repeat([]byte(text), len(text)%7*3)}
	switch len(text) % 3 {
	case 0:
		record.Key = []byte("key " + text)
	case 1:
		record.Key = []byte{}
		record.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h", Value: []byte("2")}, {Key: "empty", Value: []byte{}}, {Key: "null"}}
	case 2:
		record.Value = nil
	}
	return record
}

// compare reads every partition from the start and wants exactly these records at the offsets 0, 1, 2...
func compare(ctx context.Context, bootstrap, topic string, sent [][]*kgo.Record) error {
	from := map[int32]kgo.Offset{}
	for partition := range sent {
		from[int32(partition)] = kgo.NewOffset().AtStart()
	}
	c, _, err := client(bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	next := make([]int, len(sent))
	for slices.ContainsFunc(next, func(n int) bool { return n < len(sent[0]) }) {
		fetched := c.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return fmt.Errorf("after %v records: %w", next, err)
		}
		for record := range fetched.RecordsAll() {
			want := sent[record.Partition][next[record.Partition]]
			if record.Offset != int64(next[record.Partition]) || !same(record, want) {
				return fmt.Errorf("partition %d: got offset %d %q, not offset %d %q", record.Partition, record.Offset, record.Value, next[record.Partition], want.Value)
			}
			next[record.Partition]++
		}
	}
	return nil
}

func same(a, b *kgo.Record) bool {
	return sameBytes(a.Key, b.Key) && sameBytes(a.Value, b.Value) && a.Timestamp.UnixMilli() == b.Timestamp.UnixMilli() &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y kgo.RecordHeader) bool { return x.Key == y.Key && sameBytes(x.Value, y.Value) })
}

func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// sessions consumes 200 partitions in fetch sessions while few of them get records, so most fetches name none or some of them.
func sessions(ctx context.Context, bootstrap string, arguments []string) error {
	const partitions, rounds = 200, 60
	topic := arguments[0]
	producer, a, err := client(bootstrap)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := createTopic(ctx, a, topic, partitions, nil); err != nil {
		return err
	}
	from := map[int32]kgo.Offset{}
	for partition := range int32(partitions) {
		from[partition] = kgo.NewOffset().AtStart()
	}
	consumer, _, err := client(bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchMaxWait(20*time.Second))
	if err != nil {
		return err
	}
	defer consumer.Close()
	next := map[int32]int64{}
	for round := range rounds {
		partition := int32(round * 37 % partitions)
		if round%5 == 4 {
			partition = 3
		}
		if err := producer.ProduceSync(ctx, sample(topic, partition, fmt.Sprint(round))).FirstErr(); err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, 10*time.Second) // less than the longest wait of a fetch: it must be woken
		fetched := consumer.PollFetches(wait)
		cancel()
		if err := fetched.Err(); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		for record := range fetched.RecordsAll() {
			if record.Partition != partition || record.Offset != next[partition] {
				return fmt.Errorf("round %d: partition %d offset %d, not %d %d", round, record.Partition, record.Offset, partition, next[partition])
			}
			next[partition]++
		}
	}
	return nil
}
