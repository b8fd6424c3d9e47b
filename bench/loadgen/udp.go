package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// speaker is a member of a room who sends over UDP.
type speaker struct {
	lane *lane  // nil: the floor's bare packets
	ws   *wconn // keeps the session
	fd   int
	head []byte // of a bare packet: who sends
	due  int64
	seq  int64
}

// udpLoad is every speaker, on one event loop.
type udpLoad struct {
	p        *Poller
	speakers []*speaker // neighbours are of different rooms
	size     int        // speakers of a room
	spin     bool       // never sleep, so that nobody has to wake this process
	payload  []byte
	w0, w1   int64 // the measured time
	sent     int64
	got      int64 // messages received in the window
	gotW     int64 // received, due in the window
	packets  int64 // received in the window
	forged   int64
	unsent   int64 // the socket did not take it
	lost     int64 // control channels closed
	h, lag   Hist

	body, out, opened, in []byte
}

const hello = 'H'
const said = 'M'

// bareLen is what a MESSAGE of so much data is as a packet of the fast lane to a member.
func bareLen(data int) int { return laneHeader + laneTag + 16 + 2 + 2 + data }

// bare returns a speaker of the floor: its packets name room and player, and nothing is protected.
func bare(port, room, player, size int) *speaker {
	s := &speaker{fd: udpSocket(port)}
	s.head = []byte{said, byte(room >> 8), byte(room), byte(player)}
	s.head = append(s.head, make([]byte, bareLen(size)-size-len(s.head))...)
	greeting := append([]byte{hello}, s.head[1:4]...)
	buf := make([]byte, 64)
	for try := 0; try < 50; try++ {
		syscall.Write(s.fd, greeting)
		for wait := 0; wait < 100; wait++ {
			if n, err := syscall.Read(s.fd, buf); err == nil && n == 4 && buf[0] == hello {
				return s
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
	die("nobody answers on UDP port %d", port)
	return nil
}

var udpAnswer = regexp.MustCompile(`(\{"type":"(?:udp|error)",.*\})`)

// connect opens a member's control channel and lane.
func connect(p pass, suite string) *speaker {
	t := target{"127.0.0.1", p.Server.Port, "/"}
	fd, rest, err := wsDial(t, []byte("X-Realtime-Token: "+p.Token+"\r\n"))
	if err != nil {
		die("%v", err)
	}
	c := &wconn{fd: fd, in: rest}
	answer, err := c.ask(opText, []byte(`{"type":"udp_open","suites":["`+suite+`"]}`), udpAnswer)
	if err != nil {
		die("udp_open: %v", err)
	}
	var told struct {
		Type string
		Data laneKeys
	}
	if err := json.Unmarshal([]byte(answer), &told); err != nil || told.Type != "udp" {
		die("udp_open was answered %s", answer)
	}
	l, err := openLane(told.Data)
	if err != nil {
		die("%v", err)
	}
	return &speaker{lane: l, ws: c, fd: l.fd}
}

func (u *udpLoad) add(s *speaker) {
	i := int32(2 * len(u.speakers))
	u.speakers = append(u.speakers, s)
	u.p.add(s.fd, i)
	if s.ws != nil {
		s.ws.idx = i + 1
		u.p.add(s.ws.fd, i+1)
	}
}

// say sends a message that was due.
func (u *udpLoad) say(s *speaker, number int) {
	data := u.payload[1 : len(u.payload)-1]
	putHex(data[6:12], int64(number), 6)
	putHex(data[12:27], s.due, 15)
	putHex(data[27:36], s.seq, 9)
	s.seq++
	if s.lane == nil {
		u.out = append(append(u.out[:0], s.head...), u.payload...)
	} else {
		u.body = message(u.body[:0], "m", u.payload)
		u.out = s.lane.packet(u.out[:0], u.body)
	}
	if _, err := syscall.Write(s.fd, u.out); err != nil {
		u.unsent++
		return
	}
	if s.due >= u.w0 && s.due < u.w1 {
		u.sent++
		u.lag.Add((now() - s.due) / 1000)
	}
}

// take reads all that has come for a speaker.
func (u *udpLoad) take(s *speaker, at int64) {
	hear := func(data []byte) {
		if len(data) < headLen+1 || string(data[1:7]) != markRaw {
			return
		}
		due := getHex(data[13:28])
		if at >= u.w0 && at < u.w1 {
			u.got++
			u.h.Add((at - due) / 1000)
		}
		if due >= u.w0 && due < u.w1 {
			u.gotW++
		}
	}
	for {
		n, err := syscall.Read(s.fd, u.in)
		if err != nil || n == 0 {
			return
		}
		if at >= u.w0 && at < u.w1 {
			u.packets++
		}
		if s.lane == nil {
			if n > len(s.head) {
				hear(u.in[len(s.head):n])
			}
			continue
		}
		body := s.lane.frames(u.opened[:0], u.in[:n])
		if body == nil {
			u.forged++
		}
		eachMessage(body, hear)
	}
}

// turn waits at most ns and takes what has come.
func (u *udpLoad) turn(ns int64) {
	if u.spin {
		ns = 0
	}
	n := u.p.wait(time.Duration(ns))
	at := now()
	for k := 0; k < n; k++ {
		if k&15 == 15 {
			at = now()
		}
		i := u.p.evs[k].Fd
		s := u.speakers[i/2]
		if i%2 == 0 {
			u.take(s, at)
		} else if !s.ws.closed {
			s.ws.read(u.p, u.in, func(*wconn, []byte) {})
			if s.ws.closed {
				u.lost++
			}
		}
	}
}

var heartbeat = wsFrame(nil, opText, []byte(`{"type":"heartbeat"}`))

// run lets everybody send at a rate for a time and returns what came of it.
func (u *udpLoad) run(rate float64, warm, dur time.Duration, procs []Proc) map[string]any {
	count := len(u.speakers)
	period := int64(1e9 / rate)
	start := now() + int64(50*time.Millisecond)
	u.w0 = start + int64(warm)
	u.w1 = u.w0 + int64(dur)
	u.sent, u.got, u.gotW, u.packets, u.forged, u.unsent, u.lost = 0, 0, 0, 0, 0, 0, 0
	u.h.Reset()
	u.lag.Reset()
	order := make([]int, 0, count)
	for player := 0; player < u.size; player++ {
		for i := player; i < count; i += u.size {
			order = append(order, i)
		}
	}
	for k, i := range order {
		s := u.speakers[i]
		s.due = start + period*int64(k)/int64(count)
		if s.ws != nil {
			s.ws.write(u.p, heartbeat)
		}
	}
	var before, after CPUSample
	for next := 0; ; {
		t := now()
		if before == nil && t >= u.w0 {
			before = sampleCPU(procs)
		}
		if t >= u.w1 {
			break
		}
		s := u.speakers[order[next]]
		for burst := 0; s.due <= t && burst < 64; burst++ {
			u.say(s, order[next])
			s.due += period
			if next++; next == count {
				next = 0
			}
			s = u.speakers[order[next]]
		}
		u.turn(min(s.due, u.w1) - now())
	}
	after = sampleCPU(procs)
	for end := now() + int64(time.Second); now() < end; { // the stragglers of the window
		u.turn(end - now())
	}
	secs := dur.Seconds()
	fanned := u.sent * int64(u.size-1)
	return map[string]any{"rooms": count / u.size, "members": count,
		"offered_per_s": r3(float64(count) * rate * float64(u.size-1)), "sent_per_s": r3(float64(u.sent) / secs),
		"delivered_per_s": r3(float64(u.got) / secs), "packets_per_s": r3(float64(u.packets) / secs),
		"delivered_ratio": r3(float64(u.gotW) / float64(max(fanned, 1))), "lat_ms": u.h.Lat(), "send_lag_ms": u.lag.Lat(),
		"forged": u.forged, "unsent": u.unsent, "closed_by_server": u.lost, "cpu_pct": cpuPct(before, after, secs)}
}

func cmdUDP(args []string) {
	fs := flag.NewFlagSet("udp", flag.ExitOnError)
	url := fs.String("url", "", "address of the server; of bench/realtime/udp_floor.py, udp://127.0.0.1:PORT")
	key := fs.String("key", "", "project key")
	steps := fs.String("rooms", "10", "numbers of rooms, rising, measured one after the other")
	size := fs.Int("players", 8, "players in a room")
	rate := fs.Float64("rate", 10, "messages a second from each player to the others")
	bytes := fs.Int("size", 100, "bytes of data in a message (at least 38)")
	suite := fs.String("suite", "aes-256-gcm", "aes-256-gcm or hmac-sha256")
	spin := fs.Bool("spin", false, "never sleep: waking this process is work that a server on another machine would not have")
	dur := fs.Duration("d", 10*time.Second, "measured time of each step")
	warm := fs.Duration("warmup", 2*time.Second, "unmeasured time before each step")
	stop := fs.Float64("stop-p99", 0, "stop after the first step whose p99 is over this many ms, or that lost more than 1 %")
	procs := fs.String("procs", "", "name=pid,...: process trees whose CPU is reported")
	label := fs.String("label", "", "")
	out := fs.String("out", "", "append the results as JSON lines to this file")
	fs.Parse(args)
	if *bytes < headLen+2 {
		die("-size must be at least %d", headLen+2)
	}
	runtime.LockOSThread()
	u := &udpLoad{p: newPoller(), size: *size, spin: *spin, in: make([]byte, 64<<10), opened: make([]byte, 0, 2*packetMax)}
	u.payload = []byte(`"` + markRaw + strings.Repeat("x", *bytes-2-len(markRaw)) + `"`)
	have := 0
	for _, step := range strings.Split(*steps, ",") {
		want, err := strconv.Atoi(step)
		if err != nil || want < have {
			die("bad -rooms %q", *steps)
		}
		t := parseTarget(*url)
		if strings.HasPrefix(*url, "udp:") {
			for i := have * *size; i < want**size; i++ {
				u.add(bare(t.port, i / *size, i%*size, *bytes))
			}
		} else {
			passes := realtimeRooms(t, *key, want-have, *size, "Player "+step)
			for i, p := range passes {
				u.add(connect(p, *suite))
				if i%64 == 63 {
					u.turn(0) // pings of those before
				}
			}
		}
		have = want
		res := u.run(*rate, *warm, *dur, parseProcs(*procs))
		emit(res, "udp", *label, *out)
		p99, ratio := u.h.Pct(99), res["delivered_ratio"].(float64)
		fmt.Fprintf(os.Stderr, "rooms %d delivered %v/s of %v ratio %v p99 %.2f cpu %v\n", want, res["delivered_per_s"], res["offered_per_s"], ratio, p99, res["cpu_pct"])
		if *stop > 0 && (p99 > *stop || ratio < 0.99) {
			break
		}
	}
}
