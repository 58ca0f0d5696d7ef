package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetch reads the whole topic on each of several connections, with a Java consumer's limits.
func fetch(ctx context.Context, o options) (map[string]any, error) {
	ends, err := endOffsets(ctx, o)
	if err != nil {
		return nil, err
	}
	end := map[int32]int64{}
	for partition, offset := range ends {
		end[partition] = offset.EpochOffset().Offset
	}

	type outcome struct {
		bytes int64
		err   error
	}
	begun, ended := time.Now(), make(chan outcome, o.consumers)
	for range o.consumers {
		go func() {
			bytes, err := fetchAll(o, end)
			ended <- outcome{bytes, err}
		}()
	}
	var bytes int64
	for range o.consumers {
		done := <-ended
		if done.err != nil {
			return nil, done.err
		}
		bytes += done.bytes
	}
	seconds := time.Since(begun).Seconds()
	return map[string]any{"seconds": seconds, "mb_per_s": float64(bytes) / 1e6 / seconds}, nil
}

func fetchAll(o options, end map[int32]int64) (int64, error) {
	c, err := dial(o.bootstrap)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	next, response, bytes := map[int32]int64{}, kmsg.NewPtrFetchResponse(), int64(0)
	for {
		request := fetchRequest(o.topic, next, end)
		if len(request.Topics[0].Partitions) == 0 {
			return bytes, nil
		}
		if _, err := c.Write(frame(request)); err != nil {
			return 0, err
		}
		response.Version = request.Version
		if err := c.receive(response); err != nil {
			return 0, err
		}
		if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
			return 0, err
		}
		for _, partition := range response.Topics[0].Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return 0, fmt.Errorf("partition %d: %w", partition.Partition, err)
			}
			bytes += int64(len(partition.RecordBatches))
			if after := offsetAfter(partition.RecordBatches); after > 0 {
				next[partition.Partition] = after
			}
		}
	}
}

// fetchRequest asks for all that is not read yet, without a session.
func fetchRequest(topic string, next, end map[int32]int64) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.Version, request.MaxWaitMillis, request.MinBytes, request.MaxBytes, request.SessionEpoch = 12, 500, 1, 50<<20, -1
	of := kmsg.NewFetchRequestTopic()
	of.Topic = topic
	for partition, last := range end {
		if next[partition] < last {
			part := kmsg.NewFetchRequestTopicPartition()
			part.Partition, part.FetchOffset, part.PartitionMaxBytes = partition, next[partition], 1<<20
			of.Partitions = append(of.Partitions, part)
		}
	}
	request.Topics = append(request.Topics, of)
	return request
}

// offsetAfter the last whole batch, or 0.
func offsetAfter(batches []byte) int64 {
	after := int64(0)
	for len(batches) >= 61 {
		length := 12 + int(binary.BigEndian.Uint32(batches[8:]))
		if len(batches) < length {
			break
		}
		after = int64(binary.BigEndian.Uint64(batches)) + int64(int32(binary.BigEndian.Uint32(batches[23:]))) + 1
		batches = batches[length:]
	}
	return after
}
