package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// How each partition is written: one producer each, so record n of a partition must be at offset n.
var writers = []struct {
	name    string
	options []kgo.Opt
}{
	{"idempotent", []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}},
	{"idempotent, lz4", []kgo.Opt{kgo.ProducerBatchCompression(kgo.Lz4Compression())}},
	{"acks=1", []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck())}},
	{"acks=1, zstd, linger", []kgo.Opt{kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.DisableIdempotentWrite(),
		kgo.RequiredAcks(kgo.LeaderAck()), kgo.ProducerLinger(3 * time.Millisecond)}},
}

// write goes on until it is ended: "PARTITION OFFSET" is a line in the file for each record that the broker has acknowledged.
// Run again, it goes on behind what the log holds.
func write(_ context.Context, bootstrap string, arguments []string) error {
	file, topic := arguments[0], arguments[1]
	acks, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	ctx := context.Background()
	c, a, err := client(bootstrap)
	if err != nil {
		return err
	}
	defer c.Close()
	if topics, err := a.ListTopics(ctx, topic); err != nil || !topics.Has(topic) {
		segments := map[string]*string{"segment.bytes": kadm.StringPtr("4194304")}
		if err := createTopic(ctx, a, topic, int32(len(writers)), segments); err != nil {
			return err
		}
	}
	ends, err := a.ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for partition, writer := range writers {
		end, _ := ends.Lookup(topic, int32(partition))
		producer, _, err := client(bootstrap, append(writer.options, kgo.MaxBufferedRecords(2000))...)
		if err != nil {
			return err
		}
		go writeOn(ctx, producer, topic, int32(partition), end.Offset, acks, failed)
	}
	return <-failed
}

func writeOn(ctx context.Context, producer *kgo.Client, topic string, partition int32, n int64, acks *os.File, failed chan<- error) {
	for ; ; n++ {
		producer.Produce(ctx, &kgo.Record{Topic: topic, Partition: partition, Value: numbered(n)}, func(record *kgo.Record, err error) {
			if err == nil {
				_, err = fmt.Fprintf(acks, "%d %d\n", record.Partition, record.Offset)
			}
			if err != nil {
				failed <- err
			}
		})
	}
}

// numbered is the value of record n: the number, and a length and a filling that follow from it.
func numbered(n int64) []byte {
	value := strconv.AppendInt(nil, n, 10)
	return append(append(value, ' '), bytes.Repeat([]byte{byte('a' + n%26)}, int(n*31%400))...)
}

// verify reads the topic of write: record n at offset n without a gap, and at least as many as the file says were acknowledged.
func verify(ctx context.Context, bootstrap string, arguments []string) error {
	file, topic := arguments[0], arguments[1]
	acknowledged, err := readAcks(file)
	if err != nil {
		return err
	}
	c, a, err := client(bootstrap)
	if err != nil {
		return err
	}
	defer c.Close()
	ends, err := a.ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	for partition, writer := range writers {
		end, _ := ends.Lookup(topic, int32(partition))
		if end.Err != nil {
			return end.Err
		}
		if end.Offset <= acknowledged[partition] {
			return fmt.Errorf("%s: offset %d was acknowledged, the log ends at %d", writer.name, acknowledged[partition], end.Offset)
		}
		if err := verifyPartition(ctx, bootstrap, topic, int32(partition), end.Offset); err != nil {
			return fmt.Errorf("%s: %w", writer.name, err)
		}
		fmt.Printf("%s: acknowledged to %d, log end %d\n", writer.name, acknowledged[partition], end.Offset)
	}
	return nil
}

func verifyPartition(ctx context.Context, bootstrap, topic string, partition int32, end int64) error {
	from := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}
	c, _, err := client(bootstrap, kgo.ConsumePartitions(from))
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for next := int64(0); next < end; {
		fetched := c.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return fmt.Errorf("at offset %d of %d: %w", next, end, err)
		}
		for record := range fetched.RecordsAll() {
			if record.Offset != next || !bytes.Equal(record.Value, numbered(next)) {
				return fmt.Errorf("offset %d with %.20q, not offset %d with %.20q", record.Offset, record.Value, next, numbered(next))
			}
			next++
		}
	}
	return nil
}

// readAcks gives the highest acknowledged offset of each partition; they are in order, or that is the error.
func readAcks(file string) ([]int64, error) {
	acks, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer acks.Close()
	highest := make([]int64, len(writers))
	for partition := range highest {
		highest[partition] = -1
	}
	lines := bufio.NewScanner(acks)
	for lines.Scan() {
		var partition int
		var offset int64
		if _, err := fmt.Sscan(lines.Text(), &partition, &offset); err != nil {
			return nil, err
		}
		if offset <= highest[partition] {
			return nil, fmt.Errorf("%s: offset %d acknowledged after %d", writers[partition].name, offset, highest[partition])
		}
		highest[partition] = offset
	}
	return highest, lines.Err()
}
