package main

import (
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// cmdJoin lets a crowd arrive: each asks over HTTP for a token, connects, and waits for
// the first message. Everybody stays until the last is in.
func cmdJoin(args []string) {
	fs := flag.NewFlagSet("join", flag.ExitOnError)
	var o wsOpts
	o.flags(fs)
	ask := fs.String("ask", "", "address that is asked first (POST); the path is a template")
	body := fs.String("ask-body", "{}", "body of that, a template")
	var heads multi
	fs.Var(&heads, "ask-H", "header of that, a template; may repeat")
	find := fs.String("ask-save", "", "regexp on the answer; its groups, tab-separated, are {{cred}} from then on")
	n := fs.Int("n", 1000, "how many join")
	par := fs.Int("c", 32, "how many at a time")
	fs.Parse(args)
	t := parseTarget(strings.NewReplacer("{", "%7B", "}", "%7D").Replace(*ask))
	path := compile((*ask)[strings.Index(*ask, "://")+3+len(t.host)+1+len(strconv.Itoa(t.port)):])
	head := compile(strings.Join(append(heads, ""), "\r\n"))
	bodyT, re, ready := compile(*body), regexp.MustCompile(*find), regexp.MustCompile(o.ready)
	hello := o.hello
	o.hello = "" // here the first message is waited for before it is answered
	procs := parseProcs(o.procs)
	var creds []string
	if o.creds != "" {
		creds = readLines(o.creds)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all Hist
	var joined []*wconn
	a, began := sampleCPU(procs), now()
	for k := 0; k < *par; k++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			fd, err := dialTCP(t.host, t.port)
			if err != nil {
				die("dial: %v", err)
			}
			defer syscall.Close(fd)
			for {
				i := int(next.Add(1)) - 1
				if i >= *n {
					return
				}
				start := now()
				v := &Vars{conn: int64(i), seq: int64(i)}
				if len(creds) > 0 {
					v.cred = creds[i%len(creds)]
				}
				b := bodyT.render(nil, v)
				req := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s:%d\r\n%sContent-Length: %d\r\n\r\n%s",
					path.render(nil, v), t.host, t.port, head.render(nil, v), len(b), b)
				answer := blockingCall(fd, req)
				m := re.FindSubmatch(answer)
				if m == nil {
					die("no seat in %q", answer)
				}
				var parts []string
				for _, x := range m[1:] {
					parts = append(parts, string(x))
				}
				v.cred = strings.Join(parts, "\t")
				c, err := o.dial(v)
				if err == nil {
					_, err = c.await(ready)
				}
				if err != nil {
					die("join %d: %v", i, err)
				}
				took := now() - start
				if hello != "" {
					c.ask(o.op(), compile(hello).render(nil, v), nil)
				}
				mu.Lock()
				all.Add(took / 1000)
				joined = append(joined, c)
				mu.Unlock()
			}
		}()
	}
	wg.Wait()
	secs := float64(now()-began) / 1e9
	cpu := cpuPct(a, sampleCPU(procs), secs)
	for _, c := range joined {
		c.close()
	}
	emit(map[string]any{"joins": *n, "secs": r3(secs), "joins_per_s": r3(float64(*n) / secs), "lat_ms": all.Lat(), "cpu_pct": cpu}, "join", o.label, o.out)
}

// blockingCall sends a request on a connection that stays open and returns the body of its answer.
func blockingCall(fd int, req []byte) []byte {
	for len(req) > 0 {
		n, err := syscall.Write(fd, req)
		if err != nil {
			die("write: %v", err)
		}
		req = req[n:]
	}
	var in []byte
	tmp := make([]byte, 16<<10)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		n, err := syscall.Read(fd, tmp)
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			die("read: %v, got %q", err, in)
		}
		in = append(in, tmp[:n]...)
		if used, status, bodyAt, _ := respLen(in); used > 0 {
			if status/100 != 2 {
				die("answered %d %s", status, in[bodyAt:used])
			}
			return in[bodyAt:used]
		}
	}
	die("no answer within 20 s")
	return nil
}
