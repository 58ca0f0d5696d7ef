package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sessionMillis is long enough that nobody is thrown out while others join.
const sessionMillis = 60_000

// classicGroup is a group of the classic protocol whose members are all here.
type classicGroup struct {
	name, topic string
	partitions  int

	mutex sync.Mutex
	sizes map[int32]int // how many members each generation has, as its leader was told
}

// classicMember has a connection that nobody else uses while it joins, since a JoinGroup waits for the others.
type classicMember struct {
	*classicGroup
	c          *conn
	id         string
	generation int32
	owned      int // partitions

	beat           []byte // the heartbeat of a generation, which is sent often
	beatGeneration int32
}

// join goes on until the member has its part of a generation of so many members.
func (m *classicMember) join(members int) error {
	for {
		if err := m.joinOnce(); err != nil {
			return err
		}
		for {
			m.mutex.Lock()
			size := m.sizes[m.generation]
			m.mutex.Unlock()
			if size == members {
				return nil
			}
			code, err := m.heartbeat()
			if err != nil {
				return err
			}
			if code == kerr.RebalanceInProgress.Code {
				break
			}
			if err := kerr.ErrorForCode(code); err != nil {
				return fmt.Errorf("heartbeat: %w", err)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// rejoin waits until a heartbeat says that the group rebalances, and joins it.
func (m *classicMember) rejoin(members int) error {
	for {
		code, err := m.heartbeat()
		if err != nil {
			return err
		}
		if code == kerr.RebalanceInProgress.Code {
			return m.join(members)
		}
		if err := kerr.ErrorForCode(code); err != nil {
			return fmt.Errorf("heartbeat: %w", err)
		}
		time.Sleep(time.Millisecond)
	}
}

// joinOnce is JoinGroup and SyncGroup, again while the group moves on in between.
func (m *classicMember) joinOnce() error {
	for {
		joined, err := m.joinGroup()
		if err != nil {
			return err
		}
		m.generation = joined.Generation
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Version, sync.Group, sync.Generation, sync.MemberID = 5, m.name, joined.Generation, m.id
		sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
		if joined.LeaderID == m.id {
			sync.GroupAssignment = m.assign(joined)
		}
		synced := kmsg.NewPtrSyncGroupResponse()
		if err := m.c.ask(sync, synced); err != nil {
			return err
		}
		err = kerr.ErrorForCode(synced.ErrorCode)
		if errors.Is(err, kerr.RebalanceInProgress) {
			continue
		}
		if err != nil {
			return fmt.Errorf("SyncGroup: %w", err)
		}
		var assignment kmsg.ConsumerMemberAssignment
		if err := assignment.ReadFrom(synced.MemberAssignment); err != nil {
			return fmt.Errorf("an assignment of %d bytes: %w", len(synced.MemberAssignment), err)
		}
		m.owned = 0
		for _, topic := range assignment.Topics {
			m.owned += len(topic.Partitions)
		}
		return nil
	}
}

func (m *classicMember) joinGroup() (*kmsg.JoinGroupResponse, error) {
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 9, m.name, sessionMillis, sessionMillis
	join.ProtocolType = "consumer"
	subscription := kmsg.ConsumerMemberMetadata{Version: 1, Topics: []string{m.topic}}
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription.AppendTo(nil)}}
	for {
		join.MemberID = m.id
		joined := kmsg.NewPtrJoinGroupResponse()
		if err := m.c.ask(join, joined); err != nil {
			return nil, err
		}
		m.id = joined.MemberID
		err := kerr.ErrorForCode(joined.ErrorCode)
		if errors.Is(err, kerr.MemberIDRequired) || coordinatorComes(m.c, m.name, err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("JoinGroup: %w", err)
		}
		return joined, nil
	}
}

// assign deals the partitions out, and notes the size of the generation.
func (m *classicMember) assign(joined *kmsg.JoinGroupResponse) []kmsg.SyncGroupRequestGroupAssignment {
	m.mutex.Lock()
	m.sizes[joined.Generation] = len(joined.Members)
	m.mutex.Unlock()
	parts := make([][]int32, len(joined.Members))
	for partition := range m.partitions {
		place := partition % len(parts)
		parts[place] = append(parts[place], int32(partition))
	}
	var all []kmsg.SyncGroupRequestGroupAssignment
	for n, member := range joined.Members {
		assignment := kmsg.ConsumerMemberAssignment{Version: 1, Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: m.topic, Partitions: parts[n]}}}
		all = append(all, kmsg.SyncGroupRequestGroupAssignment{MemberID: member.MemberID, MemberAssignment: assignment.AppendTo(nil)})
	}
	return all
}

func (m *classicMember) heartbeatRequest() *kmsg.HeartbeatRequest {
	request := kmsg.NewPtrHeartbeatRequest()
	request.Version, request.Group, request.Generation, request.MemberID = 4, m.name, m.generation, m.id
	return request
}

// heartbeat gives the error code of the answer.
func (m *classicMember) heartbeat() (int16, error) {
	if m.beat == nil || m.beatGeneration != m.generation {
		m.beat, m.beatGeneration = frame(m.heartbeatRequest()), m.generation
	}
	if _, err := m.c.Write(m.beat); err != nil {
		return 0, err
	}
	if err := m.c.receiveFrame(); err != nil {
		return 0, err
	}
	return heartbeatCode(m.c.answer)
}

// leaveAll has members of one group leave it in one request.
func leaveAll(members []*classicMember) error {
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Version, request.Group = 5, members[0].name
	for _, m := range members {
		request.Members = append(request.Members, kmsg.LeaveGroupRequestMember{MemberID: m.id})
		m.id, m.generation, m.beat = "", 0, nil
	}
	response := kmsg.NewPtrLeaveGroupResponse()
	if err := members[0].c.ask(request, response); err != nil {
		return err
	}
	return kerr.ErrorForCode(response.ErrorCode)
}

// joinAll has the members join, all at once.
func joinAll(members []*classicMember) error {
	return concurrently(len(members), func(n int) error { return members[n].join(len(members)) })
}

// rebalanceClassic measures how long it takes until a group is stable once a member more has joined, and once one has left. The others
// heartbeat all the time, so that what counts is the broker's work and not the interval of their heartbeats.
func rebalanceClassic(o options) (map[string]any, error) {
	group := &classicGroup{name: o.topic, topic: o.topic, partitions: o.partitions, sizes: map[int32]int{}}
	members := make([]*classicMember, o.members)
	for n := range members {
		c, err := dial(o.bootstrap)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		members[n] = &classicMember{classicGroup: group, c: c}
	}
	others, last := members[:o.members-1], members[o.members-1]
	if err := joinAll(others); err != nil {
		return nil, err
	}
	spent, err := costsNow(o)
	if err != nil {
		return nil, err
	}
	var joins, leaves []time.Duration
	for range o.rounds {
		begun := time.Now()
		err := concurrently(len(members), func(n int) error {
			if members[n] == last {
				return last.join(len(members))
			}
			return members[n].rejoin(len(members))
		})
		if err != nil {
			return nil, fmt.Errorf("as one joins: %w", err)
		}
		joins = append(joins, time.Since(begun))
		if err := expectShares(members, o.partitions); err != nil {
			return nil, err
		}

		begun = time.Now()
		if err := leaveAll(members[o.members-1:]); err != nil {
			return nil, fmt.Errorf("LeaveGroup: %w", err)
		}
		if err := concurrently(len(others), func(n int) error { return others[n].rejoin(len(others)) }); err != nil {
			return nil, fmt.Errorf("as one leaves: %w", err)
		}
		leaves = append(leaves, time.Since(begun))
		if err := expectShares(others, o.partitions); err != nil {
			return nil, err
		}
	}
	result, err := rebalanceResult(o, spent, joins, leaves)
	return result, errors.Join(err, leaveAll(others))
}

func expectShares(members []*classicMember, partitions int) error {
	total := 0
	for _, member := range members {
		total += member.owned
	}
	if total != partitions {
		return fmt.Errorf("%d of %d partitions have an owner", total, partitions)
	}
	return nil
}
