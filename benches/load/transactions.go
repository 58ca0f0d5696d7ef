package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	transactionalProduceVersion = 12 // the first that makes partitions part of the transaction by writing to them
	endTxnVersion               = 5  // whose answer has the epoch of the next transaction
	transactionTimeoutMillis    = 60_000
	transactionBackoff          = 20 * time.Millisecond // as the Java producer's after CONCURRENT_TRANSACTIONS
	topicPartitions             = 100                   // of the topic of transactions, at least
)

// Of a batch, from its first byte.
const (
	batchCRC, batchAttributes, batchProducerID, batchProducerEpoch, batchSequence = 17, 21, 43, 51, 53

	transactionalAttribute = 1 << 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// transactions measures whole transactions of `transaction.version` 2: one Produce of a record for each of o.partitions partitions, and
// one EndTxn that commits. Each connection is a producer with its own transactional id, and waits for each answer, as the Java producer
// does at flush and commit.
func transactions(ctx context.Context, o options) (map[string]any, error) {
	topic := o
	topic.partitions = max(o.partitions, topicPartitions)
	if err := createTopic(ctx, topic); err != nil {
		return nil, err
	}
	producers := make([]*transactionalProducer, o.connections)
	if err := concurrently(o.connections, func(n int) error {
		producer, err := newTransactionalProducer(o, n, topic.partitions)
		if err != nil {
			return err
		}
		producers[n] = producer
		return producer.transaction() // all that is made on first use is there
	}); err != nil {
		return nil, err
	}
	var count, retries atomic.Int64
	before, err := cpuSeconds(o.pid)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	end := begun.Add(time.Duration(o.seconds) * time.Second)
	if err := concurrently(o.connections, func(n int) error {
		producer, done := producers[n], 0
		defer producer.c.Close()
		producer.retries = 0
		for time.Now().Before(end) {
			if err := producer.transaction(); err != nil {
				return fmt.Errorf("producer %d, transaction %d: %w", n, done, err)
			}
			done++
		}
		count.Add(int64(done))
		retries.Add(int64(producer.retries))
		return nil
	}); err != nil {
		return nil, err
	}
	result, err := perCore(o, "transactions", count.Load(), begun, before)
	if err == nil {
		result["retries"] = retries.Load()
	}
	return result, err
}

// transactionalProducer uses the same two requests again and again: what changes is written into them.
type transactionalProducer struct {
	c       *conn
	id      int64
	epoch   int16
	retries int

	produce []byte
	batches [][]byte // parts of produce
	end     []byte
	endID   []byte // the id and epoch in end
}

func newTransactionalProducer(o options, n, topicPartitions int) (*transactionalProducer, error) {
	c, err := dial(o.bootstrap)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s-%d", o.topic, n)
	init := kmsg.NewPtrInitProducerIDRequest()
	init.Version, init.TransactionalID, init.TransactionTimeoutMillis = 5, &name, transactionTimeoutMillis
	p := &transactionalProducer{c: c}
	for {
		response := kmsg.NewPtrInitProducerIDResponse()
		if err := c.ask(init, response); err != nil {
			return nil, err
		}
		err := kerr.ErrorForCode(response.ErrorCode)
		if err == nil {
			p.id, p.epoch = response.ProducerID, response.ProducerEpoch
			break
		}
		if !transactionCoordinatorComes(c, name, err) {
			return nil, fmt.Errorf("InitProducerId: %w", err)
		}
	}

	batch := recordBatch(1, o.size)
	binary.BigEndian.PutUint16(batch[batchAttributes:], transactionalAttribute)
	request := kmsg.NewPtrProduceRequest()
	request.Version, request.Acks, request.TimeoutMillis, request.TransactionID = transactionalProduceVersion, -1, 30_000, &name
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = o.topic
	for place := range o.partitions {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = int32((n*o.partitions+place)%topicPartitions), batch
		topic.Partitions = append(topic.Partitions, part)
	}
	request.Topics = append(request.Topics, topic)
	p.produce = frame(request)
	p.batches = batchesIn(p.produce, batch)
	if len(p.batches) != o.partitions {
		return nil, fmt.Errorf("%d batches in a request of %d", len(p.batches), o.partitions)
	}

	end := kmsg.NewPtrEndTxnRequest()
	end.Version, end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = endTxnVersion, name, p.id, p.epoch, true
	p.end = frame(end)
	// At the end stand: id, epoch, the outcome, no tags.
	p.endID = p.end[len(p.end)-12 : len(p.end)-2]
	return p, nil
}

// batchesIn finds the copies of a batch in a request.
func batchesIn(request, batch []byte) [][]byte {
	var found [][]byte
	for from := 0; ; {
		at := bytes.Index(request[from:], batch)
		if at < 0 {
			return found
		}
		found = append(found, request[from+at:from+at+len(batch)])
		from += at + len(batch)
	}
}

// signBatch makes the batch one of a producer.
func signBatch(batch []byte, id int64, epoch int16, sequence int32) {
	binary.BigEndian.PutUint64(batch[batchProducerID:], uint64(id))
	binary.BigEndian.PutUint16(batch[batchProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(batch[batchSequence:], uint32(sequence))
	binary.BigEndian.PutUint32(batch[batchCRC:], crc32.Checksum(batch[batchAttributes:], castagnoli))
}

// transaction writes to all the partitions and commits.
func (p *transactionalProducer) transaction() error {
	for _, batch := range p.batches {
		signBatch(batch, p.id, p.epoch, 0) // sequences begin anew with each epoch
	}
	written := kmsg.NewPtrProduceResponse()
	written.Version = transactionalProduceVersion
	if err := p.again(p.produce, func() error {
		if err := p.c.decode(written); err != nil {
			return err
		}
		for _, partition := range written.Topics[0].Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("Produce: %w", err)
	}

	binary.BigEndian.PutUint64(p.endID, uint64(p.id))
	binary.BigEndian.PutUint16(p.endID[8:], uint16(p.epoch))
	ended := kmsg.NewPtrEndTxnResponse()
	ended.Version = endTxnVersion
	if err := p.again(p.end, func() error {
		if err := p.c.decode(ended); err != nil {
			return err
		}
		return kerr.ErrorForCode(ended.ErrorCode)
	}); err != nil {
		return fmt.Errorf("EndTxn: %w", err)
	}
	if ended.ProducerID == p.id && ended.ProducerEpoch != p.epoch+1 {
		return fmt.Errorf("EndTxn: epoch %d follows %d", ended.ProducerEpoch, p.epoch)
	}
	p.id, p.epoch = ended.ProducerID, ended.ProducerEpoch
	return nil
}

// again sends a request until nothing of the transaction before is in its way.
func (p *transactionalProducer) again(request []byte, check func() error) error {
	for {
		if _, err := p.c.Write(request); err != nil {
			return err
		}
		if err := p.c.receiveFrame(); err != nil {
			return err
		}
		err := check()
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		p.retries++
		time.Sleep(transactionBackoff)
	}
}

// transactionCoordinatorComes is coordinatorComes of a transactional id.
func transactionCoordinatorComes(c *conn, name string, err error) bool {
	if !errors.Is(err, kerr.CoordinatorNotAvailable) && !errors.Is(err, kerr.NotCoordinator) &&
		!errors.Is(err, kerr.CoordinatorLoadInProgress) && !errors.Is(err, kerr.ConcurrentTransactions) {
		return false
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorType, find.CoordinatorKeys = 4, 1, []string{name}
	if err := c.ask(find, kmsg.NewPtrFindCoordinatorResponse()); err != nil {
		return false
	}
	time.Sleep(transactionBackoff)
	return true
}
