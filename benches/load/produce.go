package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	batchBytes = 16384 // as the Java producer's batch.size
	inFlight   = 5     // requests on a connection, as the Java producer's
)

// produce sends the same prepared request over and over, on several connections.
func produce(ctx context.Context, o options) (map[string]any, error) {
	if err := createTopic(ctx, o); err != nil {
		return nil, err
	}
	perBatch := max(1, batchBytes/o.size)
	batch := recordBatch(perBatch, o.size)
	var left atomic.Int64 // batches to send
	left.Store(int64(o.megabytes) * 1_000_000 / int64(perBatch*o.size))
	total := left.Load() * int64(perBatch)

	begun, ended := time.Now(), make(chan error, o.connections)
	for n := range o.connections {
		go func() { ended <- produceOn(o, n, batch, &left) }()
	}
	for range o.connections {
		if err := <-ended; err != nil {
			return nil, err
		}
	}
	seconds := time.Since(begun).Seconds()
	return map[string]any{"seconds": seconds, "records": total, "mb_per_s": float64(total) * float64(o.size) / 1e6 / seconds}, nil
}

// produceOn writes to connection n's share of the partitions, or to its one partition that others share.
func produceOn(o options, n int, batch []byte, left *atomic.Int64) error {
	c, err := dial(o.bootstrap)
	if err != nil {
		return err
	}
	defer c.Close()
	var partitions []int32
	for partition := n % o.partitions; partition < o.partitions; partition += o.connections {
		partitions = append(partitions, int32(partition))
	}
	request := produceRequest(o, batch, partitions)
	response := kmsg.NewPtrProduceResponse()
	return pipelined(c, inFlight, func(int) []byte {
		if left.Add(-int64(len(partitions))) <= -int64(len(partitions)) {
			return nil
		}
		return request
	}, func() error {
		response.Version = produceVersion
		if err := c.receive(response); err != nil {
			return err
		}
		for _, partition := range response.Topics[0].Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return fmt.Errorf("partition %d: %w", partition.Partition, err)
			}
		}
		return nil
	})
}

const produceVersion = 9

func produceRequest(o options, batch []byte, partitions []int32) []byte {
	request := kmsg.NewPtrProduceRequest()
	request.Version, request.Acks, request.TimeoutMillis = produceVersion, int16(o.acks), 30_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = o.topic
	for _, partition := range partitions {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = partition, batch
		topic.Partitions = append(topic.Partitions, part)
	}
	request.Topics = append(request.Topics, topic)
	return frame(request)
}

// recordBatch is a batch of records with values of random bytes, from no idempotent producer.
func recordBatch(count, size int) []byte {
	random, now := rand.New(rand.NewSource(1)), time.Now().UnixMilli()
	var records []byte
	for n := range count {
		value := make([]byte, size)
		random.Read(value)
		record := kmsg.Record{OffsetDelta: int32(n), Value: value}
		record.Length = int32(len(record.AppendTo(nil)) - 1) // without its own length, which took one byte as 0
		records = record.AppendTo(records)
	}
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(count - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(count), Records: records,
	}
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	bytes := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(bytes[17:], crc32.Checksum(bytes[21:], crc32.MakeTable(crc32.Castagnoli)))
	return bytes
}
