package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rebalance measures the rebalances of one group of so many members.
func rebalance(ctx context.Context, o options) (map[string]any, error) {
	if err := createTopic(ctx, o); err != nil {
		return nil, err
	}
	if o.protocol == "classic" {
		return rebalanceClassic(o)
	}
	return rebalanceConsumer(o)
}

// heartbeats measures what the heartbeats of so many members cost, of groups of 100. A connection carries a member of each group, and
// waits for the answer to a heartbeat before the next, as a consumer does.
func heartbeats(ctx context.Context, o options) (map[string]any, error) {
	if err := createTopic(ctx, o); err != nil {
		return nil, err
	}
	const size = 100
	connections := make([]*conn, size)
	for n := range connections {
		c, err := dial(o.bootstrap)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		connections[n] = c
	}
	requests := make([][][]byte, size) // of each connection
	var leave []func() error           // of each group
	for group := range o.members / size {
		name := fmt.Sprintf("%s-%d", o.topic, group)
		found, end, err := fill(o, name, connections)
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", name, err)
		}
		leave = append(leave, end)
		for n, request := range found {
			requests[n] = append(requests[n], frame(request))
		}
	}

	var count atomic.Int64
	before, err := cpuSeconds(o.pid)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	end := begun.Add(time.Duration(o.seconds) * time.Second)
	err = concurrently(size, func(n int) error {
		for sent := 0; ; sent++ {
			if sent%100 == 0 && time.Now().After(end) {
				count.Add(int64(sent))
				return nil
			}
			if _, err := connections[n].Write(requests[n][sent%len(requests[n])]); err != nil {
				return err
			}
			if err := connections[n].receiveFrame(); err != nil {
				return err
			}
			if err := heartbeatError(connections[n].answer); err != nil {
				return fmt.Errorf("heartbeat: %w", err)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	result, err := perCore(o, "heartbeats", count.Load(), begun, before)
	for _, end := range leave {
		err = errors.Join(err, end())
	}
	return result, err
}

// fill makes a group of a member on each connection, and gives the heartbeat of each once it is stable, and how all of them leave.
func fill(o options, name string, connections []*conn) ([]kmsg.Request, func() error, error) {
	requests := make([]kmsg.Request, len(connections))
	if o.protocol == "classic" {
		group := &classicGroup{name: name, topic: o.topic, partitions: o.partitions, sizes: map[int32]int{}}
		members := make([]*classicMember, len(connections))
		for n, c := range connections {
			members[n] = &classicMember{classicGroup: group, c: c}
		}
		if err := joinAll(members); err != nil {
			return nil, nil, err
		}
		for n, member := range members {
			requests[n] = member.heartbeatRequest()
		}
		return requests, func() error { return leaveAll(members) }, nil
	}
	group := &consumerGroup{name: name, topic: o.topic, partitions: o.partitions, owners: map[int32]*consumerMember{}}
	members := make([]*consumerMember, len(connections))
	for n, c := range connections {
		members[n] = &consumerMember{consumerGroup: group, c: c, id: uuid()}
	}
	if err := settle(members); err != nil {
		return nil, nil, err
	}
	err := concurrently(len(members), func(n int) error { return members[n].heartbeat() }) // all are at the last epoch
	for n, member := range members {
		requests[n] = member.heartbeatRequest()
	}
	return requests, func() error { return concurrently(len(members), func(n int) error { return members[n].leave() }) }, err
}

// heartbeatCode finds the error in an answer of either protocol: it follows the correlation id, the tags, and the throttle time.
func heartbeatCode(answer []byte) (int16, error) {
	if len(answer) < 11 {
		return 0, fmt.Errorf("an answer of %d bytes", len(answer))
	}
	return int16(binary.BigEndian.Uint16(answer[9:])), nil
}

func heartbeatError(answer []byte) error {
	code, err := heartbeatCode(answer)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(code)
}

// coordinatorComes says whether an error is that of a group's coordinator which is not there yet. If so, it asks for it and waits a little.
func coordinatorComes(c *conn, group string, err error) bool {
	if !errors.Is(err, kerr.CoordinatorNotAvailable) && !errors.Is(err, kerr.NotCoordinator) && !errors.Is(err, kerr.CoordinatorLoadInProgress) {
		return false
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{group}
	if err := c.ask(find, kmsg.NewPtrFindCoordinatorResponse()); err != nil {
		return false
	}
	time.Sleep(20 * time.Millisecond)
	return true
}

// concurrently calls work(0), work(1)... at the same time, and gives the first error.
func concurrently(count int, work func(n int) error) error {
	ended := make(chan error, count)
	for n := range count {
		go func() { ended <- work(n) }()
	}
	var first error
	for range count {
		if err := <-ended; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// costs are the CPU seconds that the broker and this program have used.
type costs struct{ broker, client float64 }

func costsNow(o options) (costs, error) {
	broker, err := cpuSeconds(o.pid)
	if err != nil {
		return costs{}, err
	}
	client, err := cpuSeconds(os.Getpid())
	return costs{broker, client}, err
}

// rebalanceResult is the time of a rebalance, and what one costs: the broker, and the members, which share the machine with it.
func rebalanceResult(o options, before costs, joins, leaves []time.Duration) (map[string]any, error) {
	after, err := costsNow(o)
	if err != nil {
		return nil, err
	}
	each := 1000 / float64(len(joins)+len(leaves))
	return map[string]any{
		"join_ms": medianMillis(joins), "leave_ms": medianMillis(leaves),
		"broker_cpu_ms": (after.broker - before.broker) * each, "client_cpu_ms": (after.client - before.client) * each,
	}, nil
}

func medianMillis(times []time.Duration) float64 {
	slices.Sort(times)
	return times[len(times)/2].Seconds() * 1000
}

func uuid() string {
	var bytes [16]byte
	rand.Read(bytes[:])
	return base64.RawURLEncoding.EncodeToString(bytes[:])
}
