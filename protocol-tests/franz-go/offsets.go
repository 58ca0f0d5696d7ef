package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// offsets prints a table of all partitions: the offsets as the broker tells them, and for either isolation level what a consumer reads,
// as COUNT FIRST..LAST HASH. HASH is the first half of the SHA-256 over a line for each record:
//
//	offset|timestamp|timestampType|key hex|value hex|name=value hex,…
func offsets(ctx context.Context, bootstrap string, _ []string) error {
	c, a, err := client(bootstrap)
	if err != nil {
		return err
	}
	defer c.Close()
	topics, err := a.ListTopicsWithInternal(ctx)
	if err != nil {
		return err
	}
	names := topics.Names()
	if len(names) == 0 {
		return nil
	}
	starts, err1 := a.ListStartOffsets(ctx, names...)
	ends, err2 := a.ListEndOffsets(ctx, names...)
	stable, err3 := a.ListCommittedOffsets(ctx, names...)
	latest, err4 := a.ListMaxTimestampOffsets(ctx, names...)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return err
		}
	}
	fmt.Println("topic\tpartition\tleader_epoch\tlog_start\tlog_end\tlast_stable\tmax_timestamp\tmax_timestamp_offset\tuncommitted\tcommitted")
	for _, topic := range topics.Sorted() {
		for _, partition := range topic.Partitions.Numbers() {
			at := func(offsets kadm.ListedOffsets) kadm.ListedOffset {
				offset, _ := offsets.Lookup(topic.Topic, partition)
				if offset.Err != nil && err == nil {
					err = fmt.Errorf("%s-%d: %w", topic.Topic, partition, offset.Err)
				}
				return offset
			}
			start, end, lastStable, newest := at(starts), at(ends), at(stable), at(latest)
			if err != nil {
				return err
			}
			uncommitted := read(ctx, bootstrap, topic.Topic, partition, start.Offset, end.Offset, kgo.ReadUncommitted())
			committed := read(ctx, bootstrap, topic.Topic, partition, start.Offset, lastStable.Offset, kgo.ReadCommitted())
			fmt.Printf("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", topic.Topic, partition, end.LeaderEpoch, start.Offset, end.Offset, lastStable.Offset,
				newest.Timestamp, newest.Offset, uncommitted, committed)
		}
	}
	return nil
}

// How often a client asks for the same records, before it says that they cannot be read.
const patience = 10

// read consumes from start until before end. Control records are asked for, since the last offset may be one's, and not counted.
func read(ctx context.Context, bootstrap, topic string, partition int32, start, end int64, level kgo.IsolationLevel) string {
	hash, count, first, last, next := sha256.New(), 0, int64(-1), int64(-1), start
	summary := func(note string) string {
		return fmt.Sprintf("%d %d..%d %s%s", count, first, last, hex.EncodeToString(hash.Sum(nil))[:16], note)
	}
	if start == end {
		return summary("")
	}
	from := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(start)}}
	c, _, err := client(bootstrap, kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for refused := 0; next < end; {
		fetched := c.PollFetches(ctx)
		before := next
		for record := range fetched.RecordsAll() {
			if record.Offset >= end {
				break
			}
			next = record.Offset + 1
			if record.Attrs.IsControl() {
				continue
			}
			if first < 0 {
				first = record.Offset
			}
			last = record.Offset
			count++
			hash.Write([]byte(describe(record)))
		}
		if next > before {
			refused = 0
		}
		if err := fetched.Err(); err != nil {
			if refused++; refused == patience || ctx.Err() != nil {
				return summary(fmt.Sprintf(" then %v at %d", err, next))
			}
		}
	}
	return summary("")
}

func describe(record *kgo.Record) string {
	kind := map[int8]string{-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}[record.Attrs.TimestampType()]
	var headers strings.Builder
	for _, header := range record.Headers {
		fmt.Fprintf(&headers, "%s=%s,", header.Key, hexOrNull(header.Value))
	}
	return fmt.Sprintf("%d|%d|%s|%s|%s|%s\n", record.Offset, record.Timestamp.UnixMilli(), kind, hexOrNull(record.Key), hexOrNull(record.Value), headers.String())
}

func hexOrNull(bytes []byte) string {
	if bytes == nil {
		return "null"
	}
	return hex.EncodeToString(bytes)
}
