package main

import (
	"bytes"
	"strconv"
	"syscall"
	"time"
)

// client is one simulated player: a keep-alive connection of its own, one call under way at a time.
type client struct {
	fd     int
	index  int32
	in     []byte
	busy   bool
	token  string // X-Game-Player-Token; "" before registration
	due    int64  // when the call under way was due, ns since base
	sentAt int64
	done   func(status int, body []byte)
}

// crowd is every client, on one event loop.
type crowd struct {
	t       target
	key     string // X-Api-Token
	p       *Poller
	clients []*client
	open    int // calls under way
	req     []byte
	buf     []byte
	reconn  int64
}

func newCrowd(t target, key string, n int) *crowd {
	c := &crowd{t: t, key: key, p: newPoller(), buf: make([]byte, 256<<10)}
	for i := 0; i < n; i++ {
		cl := &client{index: int32(i)}
		c.dial(cl)
		c.clients = append(c.clients, cl)
	}
	return c
}

func (c *crowd) dial(cl *client) {
	fd, err := dialTCP(c.t.host, c.t.port)
	if err != nil {
		die("dial: %v", err)
	}
	syscall.SetNonblock(fd, true)
	cl.fd = fd
	cl.in = cl.in[:0]
	c.p.add(fd, cl.index)
}

// call sends one request; done is called with the answer, status 0 if the connection was lost.
func (c *crowd) call(cl *client, method, path string, body []byte, due int64, done func(int, []byte)) {
	r := append(c.req[:0], method...)
	r = append(r, ' ')
	r = append(r, path...)
	r = append(r, " HTTP/1.1\r\nHost: "...)
	r = append(r, c.t.host...)
	r = append(r, ':')
	r = strconv.AppendInt(r, int64(c.t.port), 10)
	r = append(r, "\r\nX-Api-Token: "...)
	r = append(r, c.key...)
	if cl.token != "" {
		r = append(r, "\r\nX-Game-Player-Token: "...)
		r = append(r, cl.token...)
	}
	if body != nil {
		r = append(r, "\r\nContent-Type: application/json\r\nContent-Length: "...)
		r = strconv.AppendInt(r, int64(len(body)), 10)
	}
	r = append(r, "\r\n\r\n"...)
	r = append(r, body...)
	c.req = r
	cl.busy, cl.due, cl.sentAt, cl.done = true, due, now(), done
	c.open++
	n, err := syscall.Write(cl.fd, r)
	if err != nil || n != len(r) {
		c.lost(cl)
	}
}

func (c *crowd) lost(cl *client) {
	syscall.Close(cl.fd)
	c.reconn++
	c.dial(cl)
	if cl.busy {
		c.finish(cl, 0, nil)
	}
}

func (c *crowd) finish(cl *client, status int, body []byte) {
	done := cl.done
	cl.busy, cl.done = false, nil
	c.open--
	done(status, body)
}

// turn waits at most ns for answers and deals with those that came.
func (c *crowd) turn(ns int64) {
	n := c.p.wait(time.Duration(ns))
	for k := 0; k < n; k++ {
		cl := c.clients[c.p.evs[k].Fd]
		m, err := syscall.Read(cl.fd, c.buf)
		if err == syscall.EAGAIN || err == syscall.EINTR {
			continue
		}
		if m <= 0 || err != nil {
			c.lost(cl)
			continue
		}
		b := c.buf[:m]
		if len(cl.in) > 0 {
			cl.in = append(cl.in, b...)
			b = cl.in
		}
		used, status, bodyAt, closing := respLen(b)
		if used == 0 {
			if len(cl.in) == 0 {
				cl.in = append(cl.in, b...)
			}
			continue
		}
		if !cl.busy {
			die("an answer that nobody asked for: %q", b[:min(len(b), 200)])
		}
		body := b[bodyAt:used]
		cl.in = cl.in[:0] // the bytes stay where they are until the next read
		if closing {
			syscall.Close(cl.fd)
			c.reconn++
			c.dial(cl)
		}
		c.finish(cl, status, body)
	}
}

// each makes one call for each of the clients, a few at once, and waits for all answers.
func (c *crowd) each(clients []*client, start func(cl *client)) {
	const atOnce = 64
	for next := 0; next < len(clients) || c.open > 0; {
		for next < len(clients) && c.open < atOnce {
			start(clients[next])
			next++
		}
		c.turn(int64(1e9))
	}
}

// text returns the value of the first JSON string member of this name; "" if there is none.
func text(body []byte, name string) string {
	v, _ := textAt(body, []byte(`"`+name+`":"`))
	return string(v)
}

// textAt returns what stands between the first mark and the next quote, and what follows.
func textAt(body, mark []byte) (value, rest []byte) {
	i := bytes.Index(body, mark)
	if i < 0 {
		return nil, nil
	}
	body = body[i+len(mark):]
	j := bytes.IndexByte(body, '"')
	if j < 0 {
		return nil, nil
	}
	return body[:j], body[j:]
}

// numberAt returns the digits that follow the first mark, and what follows them; -1 if none.
func numberAt(body, mark []byte) (value int64, rest []byte) {
	i := bytes.Index(body, mark)
	if i < 0 {
		return -1, nil
	}
	body = body[i+len(mark):]
	j := 0
	for j < len(body) && body[j] >= '0' && body[j] <= '9' {
		value = value*10 + int64(body[j]-'0')
		j++
	}
	return value, body[j:]
}
