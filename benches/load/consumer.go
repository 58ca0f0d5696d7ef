package main

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerGroup is a group of KIP-848 whose members are all here.
type consumerGroup struct {
	name, topic string
	partitions  int

	mutex       sync.Mutex
	owners      map[int32]*consumerMember
	moved       bool // since it was looked at last
	size        int  // of which it was looked at
	settledThen bool
}

// consumerMember gives a partition back as soon as it is told to, and says so with its next heartbeat.
type consumerMember struct {
	*consumerGroup
	c       *conn
	id      string
	epoch   int32
	owned   []kmsg.ConsumerGroupHeartbeatRequestTopic
	changed bool // since the broker has been told what it owns

	// A heartbeat that says nothing new, the epoch it is of, and the answer to it that says nothing new: both are common.
	beat, still []byte
	beatEpoch   int32
}

func (m *consumerMember) heartbeatRequest() *kmsg.ConsumerGroupHeartbeatRequest {
	request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	request.Version, request.Group, request.MemberID, request.MemberEpoch = 1, m.name, m.id, m.epoch
	request.RebalanceTimeoutMillis = -1
	if m.epoch == 0 {
		request.RebalanceTimeoutMillis, request.SubscribedTopicNames = sessionMillis, []string{m.topic}
		request.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	} else if m.changed {
		request.Topics = m.owned
	}
	return request
}

// heartbeat takes over what the broker answers. Two members never own the same partition.
func (m *consumerMember) heartbeat() error {
	told := m.epoch == 0 || m.changed
	request := m.beat
	if told || request == nil || m.beatEpoch != m.epoch {
		request = frame(m.heartbeatRequest())
		if !told {
			m.beat, m.beatEpoch, m.still = request, m.epoch, nil
		}
	}
	if _, err := m.c.Write(request); err != nil {
		return err
	}
	if err := m.c.receiveFrame(); err != nil {
		return err
	}
	if !told && bytes.Equal(m.c.answer, m.still) {
		return nil
	}
	response := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	response.Version = 1
	if err := m.c.decode(response); err != nil {
		return err
	}
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		if m.epoch == 0 && coordinatorComes(m.c, m.name, err) {
			return m.heartbeat()
		}
		return fmt.Errorf("heartbeat: %w", err)
	}
	m.epoch, m.changed = response.MemberEpoch, false
	if response.Assignment == nil {
		if !told && m.epoch == m.beatEpoch {
			m.still = bytes.Clone(m.c.answer)
		}
		return nil
	}
	m.changed = true
	m.owned = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.disown()
	for _, topic := range response.Assignment.Topics {
		m.owned = append(m.owned, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic.TopicID, Partitions: topic.Partitions})
		for _, partition := range topic.Partitions {
			if other := m.owners[partition]; other != nil {
				return fmt.Errorf("partition %d was given to %s, and is still with %s", partition, m.id, other.id)
			}
			m.owners[partition] = m
		}
	}
	return nil
}

func (m *consumerMember) disown() {
	m.moved = true
	for partition, owner := range m.owners {
		if owner == m {
			delete(m.owners, partition)
		}
	}
}

func (m *consumerMember) leave() error {
	m.epoch = -1
	m.changed = false
	response := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	if err := m.c.ask(m.heartbeatRequest(), response); err != nil {
		return err
	}
	m.epoch, m.owned, m.beat, m.still = 0, nil, nil, nil
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.disown()
	return kerr.ErrorForCode(response.ErrorCode)
}

// settled says whether every partition has an owner, and all members have their part.
func (g *consumerGroup) settled(members int) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if !g.moved && g.size == members {
		return g.settledThen
	}
	parts := map[*consumerMember]int{}
	for _, owner := range g.owners {
		parts[owner]++
	}
	fewest := g.partitions
	for _, part := range parts {
		fewest = min(fewest, part)
	}
	g.moved, g.size = false, members
	g.settledThen = len(g.owners) == g.partitions && len(parts) == members && fewest == g.partitions/members
	return g.settledThen
}

// settle has the members heartbeat, each as soon as its last heartbeat is answered, until all have their final part.
func settle(members []*consumerMember) error {
	group := members[0].consumerGroup
	end := time.Now().Add(2 * time.Minute)
	return concurrently(len(members), func(n int) error {
		for {
			if err := members[n].heartbeat(); err != nil {
				return err
			}
			if members[n].changed {
				continue // what it has given back, somebody waits for
			}
			if group.settled(len(members)) {
				return nil
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s does not settle", group.name)
			}
		}
	})
}

// rebalanceConsumer measures how long it takes until every member has its final part once one more has joined, and once one has left.
func rebalanceConsumer(o options) (map[string]any, error) {
	group := &consumerGroup{name: o.topic, topic: o.topic, partitions: o.partitions, owners: map[int32]*consumerMember{}}
	members := make([]*consumerMember, o.members)
	for n := range members {
		c, err := dial(o.bootstrap)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		members[n] = &consumerMember{consumerGroup: group, c: c, id: uuid()}
	}
	others, last := members[:o.members-1], members[o.members-1]
	if err := settle(others); err != nil {
		return nil, err
	}
	spent, err := costsNow(o)
	if err != nil {
		return nil, err
	}
	var joins, leaves []time.Duration
	for range o.rounds {
		begun := time.Now()
		if err := settle(members); err != nil {
			return nil, fmt.Errorf("as one joins: %w", err)
		}
		joins = append(joins, time.Since(begun))
		begun = time.Now()
		if err := last.leave(); err != nil {
			return nil, err
		}
		if err := settle(others); err != nil {
			return nil, fmt.Errorf("as one leaves: %w", err)
		}
		leaves = append(leaves, time.Since(begun))
	}
	result, err := rebalanceResult(o, spent, joins, leaves)
	return result, errors.Join(err, concurrently(len(others), func(n int) error { return others[n].leave() }))
}
