package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const warmUp = 2 * time.Second // records sent in this time do not count

// latency sends records at fixed times and measures from when each was to be sent until a consumer has it: a stall counts for all that it delays.
func latency(ctx context.Context, o options) (map[string]any, error) {
	start := map[int32]kgo.Offset{0: kgo.NewOffset().AtStart()}
	if o.existing {
		ends, err := endOffsets(ctx, o)
		if err != nil {
			return nil, err
		}
		start = ends
	} else if err := createTopic(ctx, o); err != nil {
		return nil, err
	}
	acks := map[int]kgo.Acks{1: kgo.LeaderAck(), -1: kgo.AllISRAcks()}[o.acks]
	options := []kgo.Opt{kgo.SeedBrokers(o.bootstrap), kgo.RequiredAcks(acks), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression())}
	if o.acks != -1 {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	producer, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(o.bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{o.topic: start}))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()

	count, failed := o.rate*o.seconds, make(chan error, 1)
	begun := time.Now()
	go send(ctx, producer, o, count, begun, failed)
	var taken []time.Duration
	for seen := 0; seen < count; {
		fetched := consumer.PollFetches(ctx)
		now := time.Since(begun)
		if err := fetched.Err(); err != nil {
			return nil, err
		}
		select {
		case err := <-failed:
			return nil, err
		default:
		}
		for record := range fetched.RecordsAll() {
			seen++
			if due := time.Duration(binary.BigEndian.Uint64(record.Value)); due > warmUp {
				taken = append(taken, now-due)
			}
		}
	}
	if len(taken) == 0 {
		return nil, fmt.Errorf("%d s are over before the warm-up is", o.seconds)
	}
	slices.Sort(taken)
	at := func(part float64) float64 {
		return float64(taken[int(part*float64(len(taken)-1))].Microseconds()) / 1000
	}
	return map[string]any{"p50_ms": at(0.5), "p99_ms": at(0.99), "p999_ms": at(0.999), "records": len(taken)}, nil
}

// endOffsets says where a topic that is there ends.
func endOffsets(ctx context.Context, o options) (map[int32]kgo.Offset, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(o.bootstrap))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, o.topic)
	if err == nil {
		err = ends.Error()
	}
	return ends.KOffsets()[o.topic], err
}

// send sends record n at begun + n / rate.
func send(ctx context.Context, producer *kgo.Client, o options, count int, begun time.Time, failed chan<- error) {
	for n := range count {
		due := time.Duration(n) * time.Second / time.Duration(o.rate)
		time.Sleep(time.Until(begun.Add(due)))
		value := make([]byte, max(8, o.size))
		binary.BigEndian.PutUint64(value, uint64(due))
		producer.Produce(ctx, &kgo.Record{Topic: o.topic, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
}
