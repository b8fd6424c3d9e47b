package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// comer is a player who comes and goes; every call blocks the goroutine of the squad.
type comer struct {
	conn  net.Conn
	token string
	in    []byte
}

// squad is a few players who fill a room, leave it, and begin again.
type squad struct {
	c       *churn
	members [4]*comer
	buf     []byte
}

// churn counts what all squads did.
type churn struct {
	t, ws                  target
	key                    string
	joins, leaves, rooms   atomic.Int64
	https, sockets, broken atomic.Int64
	opened                 atomic.Int64 // pairs of connections
	joinsMax, openedMax    int64
	mu                     sync.Mutex
	errors                 map[string]int64
}

func (c *churn) fail(what string, status int, body []byte) {
	c.mu.Lock()
	c.errors[fmt.Sprintf("%s: %d %s", what, status, text(body, "error"))]++
	c.mu.Unlock()
}

func (c *churn) dial(m *comer) {
	conn, err := net.Dial("tcp", net.JoinHostPort(c.t.host, strconv.Itoa(c.t.port)))
	if err != nil {
		die("dial: %v", err)
	}
	conn.SetDeadline(time.Now().Add(time.Hour))
	m.conn, m.in = conn, m.in[:0]
}

// drop closes a connection, every second one rudely.
func drop(conn net.Conn, rude bool) {
	if rude {
		conn.(*net.TCPConn).SetLinger(0)
	}
	conn.Close()
}

func (s *squad) call(m *comer, path, body string) (int, []byte) {
	c := s.c
	r := append(s.buf[:0], "POST "...)
	r = append(r, path...)
	r = append(r, " HTTP/1.1\r\nHost: "...)
	r = append(r, c.t.host...)
	r = append(r, "\r\nX-Api-Token: "...)
	r = append(r, c.key...)
	if m.token != "" {
		r = append(r, "\r\nX-Game-Player-Token: "...)
		r = append(r, m.token...)
	}
	r = append(r, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	r = strconv.AppendInt(r, int64(len(body)), 10)
	r = append(r, "\r\n\r\n"...)
	r = append(r, body...)
	s.buf = r
	if _, err := m.conn.Write(r); err != nil {
		return s.lost(m)
	}
	m.in = m.in[:0]
	for {
		if cap(m.in)-len(m.in) < 4096 {
			m.in = append(make([]byte, 0, 2*cap(m.in)+8192), m.in...)
		}
		n, err := m.conn.Read(m.in[len(m.in):cap(m.in)])
		m.in = m.in[:len(m.in)+n]
		if used, status, at, _ := respLen(m.in); used > 0 {
			return status, m.in[at:used]
		}
		if err != nil {
			return s.lost(m)
		}
	}
}

func (s *squad) lost(m *comer) (int, []byte) {
	s.c.broken.Add(1)
	m.conn.Close()
	s.c.dial(m)
	return 0, nil
}

// must calls, and says whether it went well.
func (s *squad) must(m *comer, what, path, body string) ([]byte, bool) {
	status, answer := s.call(m, path, body)
	if status != 200 {
		s.c.fail(what, status, answer)
		return nil, false
	}
	return answer, true
}

const roomPath = "/api/game_room.php/"

const rounds = 8

// cycle makes a room, which guests join and leave again and again, and its host at the end; n is its number.
func (s *squad) cycle(n int64) {
	c := s.c
	host, guests := s.members[0], s.members[1:]
	answer, ok := s.must(host, "create", roomPath+"create", `{"max_players":4,"realtime":true,"host_switch":true}`)
	if !ok {
		for _, m := range s.members {
			s.call(m, roomPath+"leave", "{}")
		}
		return
	}
	c.joins.Add(1)
	c.rooms.Add(1)
	id := text(answer, "room_id")
	for round := int64(0); round < rounds; round++ {
		guest := guests[(n+round)%3]
		due := c.due()
		if due {
			drop(guest.conn, round%2 == 0)
			c.dial(guest)
			c.https.Add(1)
		}
		for _, m := range guests {
			if _, ok := s.must(m, "join", roomPath+id+"/join", "{}"); ok {
				c.joins.Add(1)
			}
		}
		var ws net.Conn
		if due {
			if answer, ok := s.must(guest, "token", "/api/realtime.php/token", "{}"); ok {
				ws = s.connect(text(answer, "token"))
			}
			if ws != nil && round%3 != 0 {
				part(ws, round%3 == 1)
				ws = nil
			}
		}
		leavers := guests
		if round == rounds-1 && n%2 == 0 {
			leavers = s.members[:] // the host first: another becomes host
		} else if round == rounds-1 {
			leavers = append(append([]*comer(nil), guests...), host)
		}
		for _, m := range leavers {
			if _, ok := s.must(m, "leave", roomPath+"leave", "{}"); ok {
				c.leaves.Add(1)
			}
		}
		if ws != nil { // who has left is told so
			if !untilClosed(ws) {
				c.fail("websocket not closed after leaving", 0, nil)
			}
			part(ws, true)
		}
	}
}

// due says whether it is time for another connection of each kind: they are spread evenly over the joins.
func (c *churn) due() bool {
	for {
		opened, joined := c.opened.Load(), c.joins.Load()
		if opened*c.joinsMax > joined*c.openedMax || opened >= c.openedMax {
			return false
		}
		if c.opened.CompareAndSwap(opened, opened+1) {
			return true
		}
	}
}

// connect opens a WebSocket, waits for the first frame and sends a message; nil if that failed.
func (s *squad) connect(token string) net.Conn {
	c := s.c
	conn, err := net.Dial("tcp", net.JoinHostPort(c.ws.host, strconv.Itoa(c.ws.port)))
	if err != nil {
		die("dial: %v", err)
	}
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nX-Realtime-Token: %s\r\n\r\n", c.ws.host, token)
	var in []byte
	for {
		part := make([]byte, 4096)
		n, err := conn.Read(part)
		in = append(in, part[:n]...)
		if head := bytes.Index(in, []byte("\r\n\r\n")); head >= 0 {
			if !bytes.HasPrefix(in, []byte("HTTP/1.1 101")) {
				c.fail("websocket", 0, in)
				conn.Close()
				return nil
			}
			if _, _, used := wsParse(in[head+4:]); used > 0 {
				break
			}
		}
		if err != nil {
			c.fail("websocket: "+err.Error(), 0, nil)
			conn.Close()
			return nil
		}
	}
	conn.Write(wsFrame(nil, opText, []byte(`{"type":"send","command":"m","target":"others","data":"hello"}`)))
	c.sockets.Add(1)
	return conn
}

// untilClosed reads until the server wants the WebSocket to end, and says whether it did.
func untilClosed(ws net.Conn) bool {
	ws.SetReadDeadline(time.Now().Add(10 * time.Second))
	var in []byte
	buf := make([]byte, 4096)
	for {
		n, err := ws.Read(buf)
		in = append(in, buf[:n]...)
		for {
			op, _, used := wsParse(in)
			if used == 0 {
				break
			}
			if op == opClose {
				return true
			}
			in = in[used:]
		}
		if err != nil {
			return false
		}
	}
}

// part ends a WebSocket with a close frame, or with none.
func part(ws net.Conn, politely bool) {
	if politely {
		ws.Write(wsFrame(nil, opClose, []byte{3, 232}))
		ws.SetReadDeadline(time.Now().Add(10 * time.Second))
		io.Copy(io.Discard, ws)
	}
	drop(ws, !politely)
}

// seats returns squads of players, whose tokens are in a file if it is not the first time.
func (c *churn) seats(count int, file string) []*squad {
	var tokens []string
	if b, err := os.ReadFile(file); err == nil {
		tokens = strings.Fields(string(b))
	}
	known := len(tokens) == 4*count
	squads := make([]*squad, count)
	for i := range squads {
		s := &squad{c: c}
		squads[i] = s
		for k := range s.members {
			m := &comer{}
			c.dial(m)
			if known {
				m.token = tokens[4*i+k]
			} else {
				status, answer := s.call(m, "/api/game_players.php/register", fmt.Sprintf(`{"player_name":"Comer %d"}`, 4*i+k))
				if m.token = text(answer, "private_key"); status != 200 || m.token == "" {
					die("register answered %d %s", status, answer)
				}
				tokens = append(tokens, m.token)
			}
			s.members[k] = m
		}
	}
	if file != "" && !known {
		if err := os.WriteFile(file, []byte(strings.Join(tokens, "\n")), 0o600); err != nil {
			die("%v", err)
		}
	}
	return squads
}

func cmdChurn(args []string) {
	fs := flag.NewFlagSet("churn", flag.ExitOnError)
	u := fs.String("url", "", "address of the server")
	ws := fs.String("ws", "", "address of its realtime port")
	key := fs.String("key", "", "project key")
	count := fs.Int("squads", 32, "of four players each, at it at once")
	joins := fs.Int64("joins", 1000, "rooms made and joined, together; as many are left")
	connections := fs.Int64("connections", 200, "opened and closed on the way: half HTTP, half WebSocket")
	most := fs.Duration("d", time.Hour, "stop after this long")
	tokens := fs.String("tokens", "", "file with the players' tokens, written the first time")
	procs := fs.String("procs", "", "name=pid,...: process trees whose CPU and memory are reported")
	label := fs.String("label", "", "")
	out := fs.String("out", "", "append the result as one JSON line to this file")
	fs.Parse(args)
	c := &churn{t: parseTarget(*u), ws: parseTarget(*ws), key: *key, errors: map[string]int64{}}
	squads := c.seats(*count, *tokens)
	c.joinsMax, c.openedMax = *joins, *connections/2
	var cycles atomic.Int64
	watched := parseProcs(*procs)
	before, began := sampleCPU(watched), time.Now()
	var wg sync.WaitGroup
	for _, s := range squads {
		wg.Add(1)
		go func(s *squad) {
			defer wg.Done()
			for time.Since(began) < *most {
				if c.joins.Load() >= *joins {
					break
				}
				s.cycle(cycles.Add(1))
			}
			for i, m := range s.members {
				drop(m.conn, i%2 == 0)
			}
		}(s)
	}
	wg.Wait()
	seconds := time.Since(began).Seconds()
	emit(map[string]any{
		"seconds": r3(seconds), "joins": c.joins.Load(), "leaves": c.leaves.Load(), "rooms": c.rooms.Load(),
		"http_connections": c.https.Load(), "websockets": c.sockets.Load(), "broken": c.broken.Load(),
		"errors": c.errors, "cpu_pct": cpuPct(before, sampleCPU(watched), seconds),
	}, "churn", *label, *out)
}
