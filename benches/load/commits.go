package main

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	commitsAtOnce = 8 // requests in one write
	writesOnWay   = 4
)

// commits measures offset commits: each connection has a group of its own and many requests on the way.
func commits(ctx context.Context, o options) (map[string]any, error) {
	if err := createTopic(ctx, o); err != nil {
		return nil, err
	}
	var count atomic.Int64
	err := concurrently(o.connections, func(n int) error { // the coordinators are there, and the connections
		c, err := dial(o.bootstrap)
		if err != nil {
			return err
		}
		defer c.Close()
		return commitWhenReady(c, commitRequest(fmt.Sprintf("%s-%d", o.topic, n), o, 0))
	})
	if err != nil {
		return nil, err
	}
	before, err := cpuSeconds(o.pid)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	end := begun.Add(time.Duration(o.seconds) * time.Second)
	err = concurrently(o.connections, func(n int) error {
		c, err := dial(o.bootstrap)
		if err != nil {
			return err
		}
		defer c.Close()
		request := frame(commitRequest(fmt.Sprintf("%s-%d", o.topic, n), o, int64(n)))
		requests := bytes.Repeat(request, commitsAtOnce)
		done := 0
		var good []byte // an answer without an error; the others are the same
		err = pipelined(c, writesOnWay, func(int) []byte {
			if time.Now().After(end) {
				return nil
			}
			return requests
		}, func() error {
			for range commitsAtOnce {
				if err := c.receiveFrame(); err != nil {
					return err
				}
				if !bytes.Equal(c.answer, good) {
					if err := checkCommit(c); err != nil {
						return err
					}
					good = bytes.Clone(c.answer)
				}
				done++
			}
			return nil
		})
		count.Add(int64(done))
		return err
	})
	if err != nil {
		return nil, err
	}
	return perCore(o, "commits", count.Load(), begun, before)
}

func commitRequest(group string, o options, offset int64) *kmsg.OffsetCommitRequest {
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Version, request.Group, request.Generation = 9, group, -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = o.topic
	for partition := range o.partitions {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = int32(partition), offset
		topic.Partitions = append(topic.Partitions, part)
	}
	request.Topics = append(request.Topics, topic)
	return request
}

func receiveCommit(c *conn) error {
	if err := c.receiveFrame(); err != nil {
		return err
	}
	return checkCommit(c)
}

// checkCommit looks for errors in the answer that has come.
func checkCommit(c *conn) error {
	response := kmsg.NewPtrOffsetCommitResponse()
	response.Version = 9
	if err := c.decode(response); err != nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return fmt.Errorf("commit: %w", err)
			}
		}
	}
	return nil
}

// commitWhenReady asks again while the group's coordinator is not there yet.
func commitWhenReady(c *conn, request *kmsg.OffsetCommitRequest) error {
	for {
		if _, err := c.Write(frame(request)); err != nil {
			return err
		}
		if err := receiveCommit(c); !coordinatorComes(c, request.Group, err) {
			return err
		}
	}
}

// fillOffsets commits offsets of o.groups groups, one of each partition of the topic.
func fillOffsets(ctx context.Context, o options) (map[string]any, error) {
	if err := createTopic(ctx, o); err != nil {
		return nil, err
	}
	begun := time.Now()
	err := concurrently(o.connections, func(n int) error {
		c, err := dial(o.bootstrap)
		if err != nil {
			return err
		}
		defer c.Close()
		for group := n; group < min(o.groups, 200); group += o.connections {
			if err := commitWhenReady(c, commitRequest(groupName(o, group), o, 0)); err != nil {
				return err
			}
		}
		group := n - o.connections
		return pipelined(c, inFlight, func(int) []byte {
			if group += o.connections; group >= o.groups {
				return nil
			}
			return frame(commitRequest(groupName(o, group), o, int64(group)))
		}, func() error { return receiveCommit(c) })
	})
	return map[string]any{"offsets": o.groups * o.partitions, "seconds": time.Since(begun).Seconds()}, err
}

func groupName(o options, group int) string { return fmt.Sprintf("%s-%d", o.topic, group) }

// awaitOffsets asks for committed offsets until the broker, which may not run yet, answers with them: the first group that it knows, and
// then all of the first 200, which live in all partitions of __consumer_offsets. It says when, in seconds of Unix time.
func awaitOffsets(ctx context.Context, o options) (map[string]any, error) {
	const step = 2 * time.Millisecond
	var first, last float64
	for group := 0; group < min(o.groups, 200); group++ {
		for {
			found, err := fetchOffset(o, group)
			if err == nil && found == int64(group) {
				break
			}
			if err == nil {
				return nil, fmt.Errorf("group %d: offset %d", group, found)
			}
			if ctx.Err() != nil {
				return nil, err
			}
			time.Sleep(step)
		}
		last = float64(time.Now().UnixNano()) / 1e9
		if first == 0 {
			first = last
		}
	}
	return map[string]any{"first": first, "last": last}, nil
}

func fetchOffset(o options, group int) (int64, error) {
	c, err := dial(o.bootstrap)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Version = 8
	wanted := kmsg.NewOffsetFetchRequestGroup()
	wanted.Group = groupName(o, group)
	wanted.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: o.topic, Partitions: []int32{int32(o.partitions - 1)}}}
	request.Groups = append(request.Groups, wanted)
	response := kmsg.NewPtrOffsetFetchResponse()
	if err := c.ask(request, response); err != nil {
		return 0, err
	}
	if err := kerr.ErrorForCode(response.Groups[0].ErrorCode); err != nil {
		return 0, err
	}
	partition := response.Groups[0].Topics[0].Partitions[0]
	return partition.Offset, kerr.ErrorForCode(partition.ErrorCode)
}
