package main

import (
	"context"
	"fmt"
	"time"

	"github.com/Shopify/sarama"
)

// saramaRoundTrip produces and consumes with Sarama of 2019, at the protocol generation that the second argument
// names. The topic comes into being by the producer's question for it.
func saramaRoundTrip(_ context.Context, bootstrap string, arguments []string) error {
	const count = 300
	topic := arguments[0]
	version, err := sarama.ParseKafkaVersion(arguments[1])
	if err != nil {
		return err
	}
	config := sarama.NewConfig()
	config.Version = version
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Compression = sarama.CompressionSnappy

	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for n := range count {
		messages = append(messages, &sarama.ProducerMessage{
			Topic: topic, Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder(fmt.Sprint(n)),
			Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte("v")}}, Timestamp: time.UnixMilli(1_500_000_000_000 + int64(n)),
		})
	}
	if err := eventually(func() error { return producer.SendMessages(messages[:1]) }); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	if err := producer.SendMessages(messages[1:]); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	consumer, err := sarama.NewConsumer([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	defer partition.Close()
	for n := range count {
		select {
		case got := <-partition.Messages():
			if got.Offset != int64(n) || string(got.Value) != fmt.Sprint(n) || got.Timestamp.UnixMilli() != 1_500_000_000_000+int64(n) ||
				len(got.Headers) != 1 || string(got.Headers[0].Value) != "v" {
				return fmt.Errorf("message %d: %+v", n, got)
			}
		case <-time.After(20 * time.Second):
			return fmt.Errorf("message %d does not come", n)
		}
	}
	return nil
}
