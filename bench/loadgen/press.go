package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// presser is one address that presses upon a server with connections.
type presser struct {
	address               string
	dialer                net.Dialer
	request               []byte
	until                 time.Time
	opened, failed, ended atomic.Int64 // ended: by the server
	key, realtime         string       // what floods need
	interval              int64        // ns between two requests of a flood, all its connections together; 0: none
	due                   atomic.Int64 // when the next is
	tally
}

// pause waits until the next request of a flood is due.
func (p *presser) pause() {
	if p.interval > 0 {
		time.Sleep(time.Duration(p.due.Add(p.interval) - time.Now().UnixNano()))
	}
}

func (p *presser) dial() net.Conn {
	conn, err := p.dialer.Dial("tcp", p.address)
	if err != nil {
		p.failed.Add(1)
		return nil
	}
	conn.SetDeadline(p.until)
	p.opened.Add(1)
	return conn
}

// held waits for the server to end a connection, or for the end of all.
func (p *presser) held(conn net.Conn) {
	io.Copy(io.Discard, conn)
	if time.Now().Before(p.until) {
		p.ended.Add(1)
	}
}

const deafRequests = 5000

var pressModes = map[string]func(p *presser, conn net.Conn){
	// says nothing
	"idle": func(p *presser, conn net.Conn) { p.held(conn) },
	// a byte of a request's head every second
	"drip": func(p *presser, conn net.Conn) {
		go func() {
			head := append([]byte("GET /api/time.php HTTP/1.1\r\nX: "), make([]byte, 1<<10)...)
			for i := range head {
				if head[i] == 0 {
					head[i] = 'x'
				}
				if _, err := conn.Write(head[i : i+1]); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		p.held(conn)
	},
	// asks for much, and never reads
	"deaf": func(p *presser, conn net.Conn) {
		conn.(*net.TCPConn).SetReadBuffer(4096)
		for i := 0; i < deafRequests; i++ {
			if _, err := conn.Write(p.request); err != nil {
				break
			}
		}
		for time.Now().Before(p.until) {
			time.Sleep(time.Second)
		}
	},
	// connects and resets, again and again
	"knock": func(p *presser, conn net.Conn) {
		for conn != nil {
			drop(conn, true)
			if !time.Now().Before(p.until) {
				return
			}
			conn = p.dial()
		}
	},
}

func cmdPress(args []string) {
	fs := flag.NewFlagSet("press", flag.ExitOnError)
	u := fs.String("url", "", "address of the server")
	key := fs.String("key", "", "project key")
	from := fs.String("from", "127.0.0.2", "own address, on loopback")
	mode := fs.String("mode", "idle", "idle, drip, deaf, knock, or one of the floods: see README.md")
	ws := fs.String("ws", "", "address of the realtime port, for the flood stored")
	rate := fs.Float64("rate", 0, "requests a second of a flood, at most; 0: as soon as the one before is answered")
	count := fs.Int("c", 100, "connections at a time")
	dur := fs.Duration("d", 10*time.Second, "for so long")
	procs := fs.String("procs", "", "name=pid,...: process trees whose CPU is reported")
	label := fs.String("label", "", "")
	out := fs.String("out", "", "append the result as one JSON line to this file")
	fs.Parse(args)
	t := parseTarget(*u)
	if ip := net.ParseIP(t.host); ip == nil || !ip.IsLoopback() {
		die("loadgen only talks to loopback, not %s", t.host)
	}
	press, known := pressModes[*mode]
	if run, isFlood := floods[*mode]; isFlood {
		press, known = flooded(run), true
	}
	if !known {
		die("unknown mode %q", *mode)
	}
	p := &presser{address: net.JoinHostPort(t.host, strconv.Itoa(t.port)), until: time.Now().Add(*dur)}
	p.key = *key
	if *ws != "" {
		channel := parseTarget(strings.Replace(*ws, "ws", "http", 1))
		p.realtime = net.JoinHostPort(channel.host, strconv.Itoa(channel.port))
	}
	if *rate > 0 {
		p.interval = int64(float64(time.Second) / *rate)
		p.due.Store(time.Now().UnixNano())
	}
	p.dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(*from)}
	p.request = fmt.Appendf(nil, "POST /api/game_room.php/list HTTP/1.1\r\nHost: x\r\nX-Api-Token: %s\r\nContent-Length: 0\r\n\r\n", *key)
	watched := parseProcs(*procs)
	before := sampleCPU(watched)
	var wg sync.WaitGroup
	for i := 0; i < *count && time.Now().Before(p.until); i++ {
		conn := p.dial()
		if conn == nil {
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			press(p, conn)
			conn.Close()
		}()
	}
	wg.Wait()
	time.Sleep(time.Until(p.until))
	row := map[string]any{"mode": *mode, "opened": p.opened.Load(), "failed": p.failed.Load(), "ended_by_server": p.ended.Load(),
		"opened_per_s": r3(float64(p.opened.Load()) / dur.Seconds()), "cpu_pct": cpuPct(before, sampleCPU(watched), dur.Seconds())}
	p.row(row)
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		row["own_cpu_s"] = r3(float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9)
	}
	emit(row, "press", *label, *out)
}
