package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// settleTime is for what a broker does after it has answered.
const settleTime = 100 * time.Millisecond

// idempotence measures what a batch of an idempotent producer costs the broker beside a plain one, both with acks=all: the same load in
// turns, o.rounds times each, with as many producers as connections, each on a partition of its own. The cheapest turn of each counts:
// whatever else the machine does makes a turn dearer, and never cheaper.
func idempotence(ctx context.Context, o options) (map[string]any, error) {
	topic := o.topic
	spent := map[bool][]float64{}
	batches := int64(o.megabytes) * 1_000_000 / int64(o.size*o.records)
	for round := range o.rounds + 1 {
		for turn := range 2 {
			idempotent := (turn+round)%2 == 0
			o.topic = fmt.Sprintf("%s-%d-%d", topic, round, turn)
			cpu, err := produceInTurn(ctx, o, idempotent, batches)
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first is for all that gets warm
				spent[idempotent] = append(spent[idempotent], cpu)
			}
		}
	}
	plain, signed := slices.Min(spent[false]), slices.Min(spent[true])
	micros := 1e6 / float64(batches)
	return map[string]any{"overhead_percent": (signed/plain - 1) * 100, "plain_us": plain * micros, "idempotent_us": signed * micros}, nil
}

// produceInTurn writes so many batches to a topic that is deleted afterwards, and gives the CPU time that the broker spent on them.
func produceInTurn(ctx context.Context, o options, idempotent bool, batches int64) (float64, error) {
	if err := createTopic(ctx, o); err != nil {
		return 0, err
	}
	producers := make([]*producer, o.connections)
	for n := range producers {
		p, err := newProducer(o, n, idempotent)
		if err != nil {
			return 0, err
		}
		defer p.c.Close()
		producers[n] = p
	}
	var left atomic.Int64
	run := func(n int) error { return producers[n].produce(&left) }
	left.Store(int64(10 * len(producers)))
	if err := concurrently(len(producers), run); err != nil { // all is there that is made on first use
		return 0, err
	}
	time.Sleep(settleTime)
	left.Store(batches)
	before, err := cpuSeconds(o.pid)
	if err != nil {
		return 0, err
	}
	if err := concurrently(len(producers), run); err != nil {
		return 0, err
	}
	after, err := cpuSeconds(o.pid)
	if err != nil {
		return 0, err
	}
	return after - before, deleteTopic(ctx, o)
}

// producer writes one batch after another to its partition.
type producer struct {
	c       *conn
	request []byte
	batch   []byte // part of the request
	records int32
	id      int64 // -1: of a plain producer
	epoch   int16
	sent    int32 // batches
}

func newProducer(o options, n int, idempotent bool) (*producer, error) {
	c, err := dial(o.bootstrap)
	if err != nil {
		return nil, err
	}
	p := &producer{c: c, records: int32(o.records), id: -1, epoch: -1}
	init, response := kmsg.NewPtrInitProducerIDRequest(), kmsg.NewPtrInitProducerIDResponse()
	init.Version = 5
	if err := c.ask(init, response); err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		return nil, fmt.Errorf("InitProducerId: %w", err)
	}
	if idempotent { // the others do as much before it begins
		p.id, p.epoch = response.ProducerID, response.ProducerEpoch
	}
	batch := recordBatch(o.records, o.size)
	o.acks = -1
	p.request = produceRequest(o, batch, []int32{int32(n % o.partitions)})
	p.batch = batchesIn(p.request, batch)[0]
	return p, nil
}

func (p *producer) produce(left *atomic.Int64) error {
	response := kmsg.NewPtrProduceResponse()
	return pipelined(p.c, inFlight, func(int) []byte {
		if left.Add(-1) < 0 {
			return nil
		}
		sequence := int32(-1)
		if p.id >= 0 {
			sequence = p.sent * p.records
		}
		p.sent++
		signBatch(p.batch, p.id, p.epoch, sequence)
		return p.request
	}, func() error {
		response.Version = produceVersion
		if err := p.c.receive(response); err != nil {
			return err
		}
		return kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
	})
}

func deleteTopic(ctx context.Context, o options) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(o.bootstrap))
	if err != nil {
		return err
	}
	defer c.Close()
	deleted, err := kadm.NewClient(c).DeleteTopics(ctx, o.topic)
	if err != nil {
		return err
	}
	return deleted.Error()
}
