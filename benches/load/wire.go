package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn is a connection that sends whole requests and receives whole answers.
type conn struct {
	net.Conn
	in     *bufio.Reader
	answer []byte // the last one; its memory is used again for the next
}

func dial(address string) (*conn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: bufio.NewReaderSize(c, 1<<16)}, nil
}

// frame is the request as it goes over the wire.
func frame(request kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("load")).AppendRequest(nil, request, 0)
}

// receive reads an answer into the response.
func (c *conn) receive(into kmsg.Response) error {
	if err := c.receiveFrame(); err != nil {
		return err
	}
	return c.decode(into)
}

// receiveFrame reads an answer, and no more than that.
func (c *conn) receiveFrame() error {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size < 5 || size > 1<<30 {
		return fmt.Errorf("an answer of %d bytes", size)
	}
	if cap(c.answer) < size {
		c.answer = make([]byte, size+size/4)
	}
	c.answer = c.answer[:size]
	_, err := io.ReadFull(c.in, c.answer)
	return err
}

// decode takes the answer that has come apart.
func (c *conn) decode(into kmsg.Response) error {
	body := c.answer[4:] // the correlation id: answers come in order
	if into.IsFlexible() {
		body = body[1:] // no tags in the header
	}
	return into.ReadFrom(body)
}

// ask sends a request and waits for its answer.
func (c *conn) ask(request kmsg.Request, into kmsg.Response) error {
	if _, err := c.Write(frame(request)); err != nil {
		return err
	}
	into.SetVersion(request.GetVersion())
	return c.receive(into)
}

// pipelined sends what next(0), next(1)... give until it is nil, with so many requests on the way, and calls received for each answer.
func pipelined(c *conn, window int, next func(n int) []byte, received func() error) error {
	slots, failed := make(chan struct{}, window), make(chan error, 1)
	go func() {
		for range slots {
			if err := received(); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	for n := 0; ; n++ {
		request := next(n)
		if request == nil {
			break
		}
		select {
		case slots <- struct{}{}:
		case err := <-failed:
			return err
		}
		if _, err := c.Write(request); err != nil {
			return err
		}
	}
	close(slots)
	return <-failed
}
