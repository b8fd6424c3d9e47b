package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A gamer is a client that knows the seat of its player.
type gamer struct {
	*client
	id      int64
	isHost  bool
	polls   bool   // reads updates, too; turn-based players only act
	cursor  string // last_update of the previous answer
	pending []string
	seen    map[string]bool // actions taken up already
}

// kind is one sort of call: how often, who makes it, how.
type kind struct {
	name   string
	share  float64 // per cent of all calls
	group  []*gamer
	next   int
	credit float64
	make   func(m *mixed, g *gamer, due int64)
	late   []int64               // when calls were due for which everybody was busy, the oldest first
	first  func(m *mixed) *gamer // whom to prefer; nil: anybody
	lat    Hist
}

// A failure is a call that was not answered well.
type failure struct {
	Ms     int64  `json:"ms"`      // since the rate began
	TookMs int64  `json:"took_ms"` // from sending to the answer, or to the loss of the connection
	Kind   string `json:"kind"`
	Status int    `json:"status"` // 0: the connection was lost
	Text   string `json:"text"`
}

const failuresMax = 20

type mixed struct {
	*crowd
	gamers []*gamer
	kinds  []*kind
	asked  []*gamer // who has been asked for something, in that order
	ledger *ledger
	errors map[string]int64
	// the latest failure
	failStatus int
	failBody   []byte
	failKey    string
	failures   []failure // the first ones
	start      int64     // when the rate under way began
	from       int64 // calls due before do not count
	until      int64
	ok, bad    int64
	within     int64 // calls answered well between from and until, whenever they were due
	acted      int64
	solved     int64
	all        Hist
	shed       Hist // of answers 429
	lag        Hist // how late this process itself sent
	pad        string
}

// answered returns what takes the answer of a call: it counts it, then hands a good one on.
func (m *mixed) answered(k *kind, cl *client, then func(body []byte)) func(int, []byte) {
	return func(status int, body []byte) {
		if status == 200 && then != nil {
			then(body)
		}
		if t := now(); status == 200 && t >= m.from && t < m.until {
			m.within++
		}
		if cl.due < m.from || cl.due >= m.until {
			if status != 200 {
				m.fail(k, cl, status, body)
			}
			return
		}
		m.lag.Add((cl.sentAt - cl.due) / 1000)
		if status != 200 {
			if status == 429 {
				m.shed.Add((now() - cl.due) / 1000)
			}
			m.bad++
			m.fail(k, cl, status, body)
			return
		}
		m.ok++
		us := (now() - cl.due) / 1000
		k.lat.Add(us)
		m.all.Add(us)
	}
}

// fail counts what went wrong by status and text; the same thing over and over must cost next to nothing.
func (m *mixed) fail(k *kind, cl *client, status int, body []byte) {
	if m.failKey == "" || status != m.failStatus || !bytes.Equal(body, m.failBody) {
		m.failStatus, m.failBody = status, append(m.failBody[:0], body...)
		m.failKey = strconv.Itoa(status) + " " + text(body, "error")
	}
	m.errors[m.failKey]++
	if len(m.failures) < failuresMax {
		t := now()
		m.failures = append(m.failures, failure{(t - m.start) / 1e6, (t - cl.sentAt) / 1e6, k.name, status, text(body, "error")})
	}
}

func get(path string) func(*mixed, *kind, *gamer, int64) {
	return func(m *mixed, k *kind, g *gamer, due int64) {
		m.call(g.client, "GET", path, nil, due, m.answered(k, g.client, nil))
	}
}

func post(path, body string) func(*mixed, *kind, *gamer, int64) {
	b := []byte(body)
	return func(m *mixed, k *kind, g *gamer, due int64) {
		m.call(g.client, "POST", path, b, due, m.answered(k, g.client, nil))
	}
}

var (
	markN      = []byte(`"data":{"n":`)
	markLast   = []byte(`"last_update":"`)
	markMissed = []byte(`"missed":`)
	markAction = []byte(`"action_id":"`)
)

const pollPath = "/api/game_room.php/updates/poll"

func (g *gamer) pollBody() []byte {
	if g.cursor == "" {
		return []byte(`{"from_players":"all","last_update":null}`)
	}
	return []byte(`{"from_players":"all","last_update":"` + g.cursor + `"}`)
}

func pollUpdates(m *mixed, k *kind, g *gamer, due int64) {
	m.call(g.client, "POST", pollPath, g.pollBody(), due,
		m.answered(k, g.client, func(b []byte) { m.take(g, b) }))
}

// take notes what a poll brought; it returns how many.
func (m *mixed) take(g *gamer, body []byte) int {
	count := 0
	for rest := body; ; count++ {
		var n int64
		if n, rest = numberAt(rest, markN); n < 0 {
			break
		}
		m.ledger.got[g.id] = append(m.ledger.got[g.id], int32(n))
	}
	if last, _ := textAt(body, markLast); last != nil {
		g.cursor = string(last)
	}
	if missed, _ := numberAt(body, markMissed); missed > 0 {
		m.ledger.missed += missed
	}
	return count
}

func pollPending(m *mixed, k *kind, g *gamer, due int64) {
	m.call(g.client, "GET", "/api/game_room.php/actions/pending", nil, due,
		m.answered(k, g.client, func(b []byte) {
			for {
				var id []byte
				if id, b = textAt(b, markAction); id == nil {
					return
				}
				if !g.seen[string(id)] {
					g.seen[string(id)] = true
					if len(g.pending) == 0 {
						m.asked = append(m.asked, g)
					}
					g.pending = append(g.pending, string(id))
				}
			}
		}))
}

func sendUpdate(m *mixed, k *kind, g *gamer, due int64) {
	n := m.ledger.send()
	whom := "host"
	if g.isHost {
		whom = "others"
	}
	body := fmt.Appendf(nil, `{"target_players":"%s","type":"moved","data":{"n":%d,"x":"%s"}}`, whom, n, m.pad)
	m.call(g.client, "POST", "/api/game_room.php/updates", body, due,
		m.answered(k, g.client, func(b []byte) {
			s := &m.ledger.sendings[n]
			s.ackedAt = now()
			if _, ids := numberAt(b, []byte(`"target_players_ids":[`)); ids != nil {
				i := bytes.LastIndexByte(b[:len(b)-len(ids)], '[')
				list := string(b[i+1 : i+1+bytes.IndexByte(b[i+1:], ']')])
				for _, id := range strings.Split(list, ",") {
					if v, err := strconv.ParseInt(strings.TrimSpace(id), 10, 64); err == nil {
						s.targets = append(s.targets, v)
					}
				}
			}
		}))
}

func sendAction(m *mixed, k *kind, g *gamer, due int64) {
	whom := "host"
	if g.isHost {
		whom = "others"
	}
	body := []byte(`{"target_players":"` + whom + `","action_type":"place","request_data":{"x":3,"y":4,"z":"` + m.pad + `"}}`)
	m.call(g.client, "POST", "/api/game_room.php/actions", body, due,
		m.answered(k, g.client, func(b []byte) {
			if n, _ := numberAt(b, []byte(`"actions_sent":`)); n > 0 {
				m.acted += n
			}
		}))
}

// completeAction answers what this gamer was asked, or asks another if there is nothing.
func completeAction(m *mixed, k *kind, g *gamer, due int64) {
	if len(g.pending) == 0 {
		sendAction(m, k, g, due)
		return
	}
	id := g.pending[0]
	g.pending = g.pending[1:]
	delete(g.seen, id)
	body := []byte(`{"status":"completed","response_data":{"ok":true,"z":"` + m.pad + `"}}`)
	m.call(g.client, "POST", "/api/game_room.php/actions/"+id+"/complete", body, due,
		m.answered(k, g.client, func([]byte) { m.solved++ }))
}

// setUp registers everybody and seats them.
func (m *mixed) setUp(names string, lobbies bool) {
	n := len(m.gamers)
	clients := m.clients
	m.each(clients, func(cl *client) {
		g := m.gamers[cl.index]
		body := fmt.Appendf(nil, `{"player_name":"%s %d","player_data":{"level":%d}}`, names, cl.index, cl.index%50)
		m.must(cl, "POST", "/api/game_players.php/register", body, func(b []byte) {
			g.token = text(b, "private_key")
			g.id, _ = strconv.ParseInt(text(b, "player_id"), 10, 64)
		})
	})
	menu, lobby, polled := n*20/100, n*25/100, n*45/100
	if !lobbies {
		menu, lobby = menu+lobby, 0
	}
	inLobby := m.gamers[menu : menu+lobby]
	inPolled := m.gamers[menu+lobby : menu+lobby+polled]
	turnBased := m.gamers[menu+lobby+polled:]
	m.seat(inLobby, 5, "/api/matchmaking.php", "matchmaking_id", `{"max_players":6,"rules":{"map":"dunes"}}`)
	m.seat(inPolled, 6, "/api/game_room.php", "room_id", `{"max_players":6,"rules":{"map":"dunes"}}`)
	m.seat(turnBased, 2, "/api/game_room.php", "room_id", `{"max_players":4,"rules":{"map":"board"}}`)
	for _, g := range inPolled {
		g.polls = true
	}
	m.plan(m.gamers[:menu], inLobby, inPolled, turnBased)
}

// seat puts gamers into rooms or lobbies of a size; those who do not fill one share a smaller one.
func (m *mixed) seat(gamers []*gamer, size int, area, idName, body string) {
	ids := make([]string, (len(gamers)+size-1)/size)
	var hosts, guests []*client
	place := map[int32]int{}
	for i, g := range gamers {
		place[g.index] = i / size
		if g.isHost = i%size == 0; g.isHost {
			hosts = append(hosts, g.client)
		} else {
			guests = append(guests, g.client)
		}
	}
	m.each(hosts, func(cl *client) {
		m.must(cl, "POST", area+"/create", []byte(body), func(b []byte) { ids[place[cl.index]] = text(b, idName) })
	})
	m.each(guests, func(cl *client) {
		m.must(cl, "POST", area+"/"+ids[place[cl.index]]+"/join", []byte("{}"), nil)
	})
}

// must makes a call whose failure ends the program. It is made again while others keep the server too busy for it.
func (m *mixed) must(cl *client, method, path string, body []byte, then func([]byte)) {
	m.call(cl, method, path, body, now(), func(status int, b []byte) {
		if status == 429 {
			m.must(cl, method, path, body, then)
			return
		}
		if status != 200 {
			die("setting up: %s %s answered %d %s", method, path, status, b)
		}
		if then != nil {
			then(b)
		}
	})
}

// plan says who calls what how often; the shares are per cent of all calls.
func (m *mixed) plan(menu, inLobby, inPolled, turnBased []*gamer) {
	seated := shuffled(append(append([]*gamer(nil), inPolled...), turnBased...))
	acting := shuffled(append(append([]*gamer(nil), turnBased...), inPolled[:len(inPolled)/3]...))
	menu, inLobby, inPolled = shuffled(menu), shuffled(inLobby), shuffled(inPolled)
	add := func(name string, share float64, group []*gamer, f func(*mixed, *kind, *gamer, int64)) *kind {
		k := &kind{name: name, share: share, group: group}
		k.make = func(m *mixed, g *gamer, due int64) { f(m, k, g, due) }
		m.kinds = append(m.kinds, k)
		return k
	}
	add("updates/poll", 45, inPolled, pollUpdates)
	add("actions/poll", 9, seated, get("/api/game_room.php/actions/poll"))
	add("actions/pending", 9, seated, pollPending)
	add("updates", 10, inPolled, sendUpdate)
	add("actions", 3, acting, sendAction)
	add("actions/complete", 5, seated, completeAction).first = (*mixed).nextAsked
	add("room players", 1, seated, get("/api/game_room.php/players"))
	add("room heartbeat", 1, seated, post("/api/game_room.php/heartbeat", "{}"))
	add("room list", 2, menu, post("/api/game_room.php/list", "{}"))
	add("heartbeat", 2, menu, post("/api/game_players.php/heartbeat", "{}"))
	if len(inLobby) > 0 {
		add("room current", 3, seated, get("/api/game_room.php/current"))
		add("lobby current", 7, inLobby, get("/api/matchmaking.php/current"))
		add("lobby list", 1, menu, post("/api/matchmaking.php/list", "{}"))
		add("lobby players", 1, inLobby, get("/api/matchmaking.php/players"))
		add("lobby heartbeat", 1, inLobby, post("/api/matchmaking.php/heartbeat", "{}"))
	} else {
		add("room current", 10, seated, get("/api/game_room.php/current"))
		add("player/get", 3, menu, get("/api/game_data.php/player/get"))
	}
}

func shuffled(gamers []*gamer) []*gamer {
	out := append([]*gamer(nil), gamers...)
	for i := len(out) - 1; i > 0; i-- {
		j := int(fastRand() % uint64(i+1))
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// pick returns the kind that is furthest behind its share.
func (m *mixed) pick() *kind {
	best := m.kinds[0]
	for _, k := range m.kinds {
		k.credit += k.share
		if k.credit > best.credit {
			best = k
		}
	}
	best.credit -= 100
	return best
}

const looksMax = 32

// idle returns the next gamer of a kind's group who has no call under way; nil: whom it looked at were busy.
func (m *mixed) idle(k *kind) *gamer {
	if k.first != nil {
		if g := k.first(m); g != nil {
			return g
		}
	}
	for looks := min(len(k.group), looksMax); looks > 0; looks-- {
		g := k.group[k.next]
		if k.next++; k.next == len(k.group) {
			k.next = 0
		}
		if !g.busy {
			return g
		}
	}
	return nil
}

// nextAsked returns somebody who has been asked and has no call under way, if it finds one soon.
func (m *mixed) nextAsked() *gamer {
	for looks := min(len(m.asked), looksMax); looks > 0; looks-- {
		g := m.asked[0]
		m.asked = m.asked[1:]
		if len(g.pending) == 0 {
			continue
		}
		m.asked = append(m.asked, g)
		if !g.busy {
			return g
		}
	}
	return nil
}

// begin makes the calls of a kind that are due, the oldest first, as far as somebody is free.
func (m *mixed) begin(k *kind) {
	for len(k.late) > 0 {
		g := m.idle(k)
		if g == nil {
			return
		}
		due := k.late[0]
		k.late = k.late[1:]
		k.make(m, g, due)
	}
}

// load runs one rate: open loop, each call at its due time or, when its whole group is busy, later.
func (m *mixed) load(rate float64, warm, dur time.Duration, procs []Proc) map[string]any {
	m.ledger, m.errors, m.failures = newLedger(), map[string]int64{}, nil
	m.ok, m.bad, m.within, m.acted, m.solved, m.all, m.shed, m.lag = 0, 0, 0, 0, 0, Hist{}, Hist{}, Hist{}
	for _, k := range m.kinds {
		k.lat.Reset()
	}
	m.drain()
	m.ledger = newLedger()
	start := now()
	m.start = start
	m.from = start + int64(warm)
	m.until = m.from + int64(dur)
	gap := 1e9 / rate
	var sampled CPUSample
	for sent := 0; ; {
		t := now()
		if t >= m.until {
			break
		}
		if sampled == nil && t >= m.from {
			sampled = sampleCPU(procs)
		}
		due := start + int64(float64(sent)*gap)
		for ; due <= t; due = start + int64(float64(sent)*gap) {
			sent++
			k := m.pick()
			k.late = append(k.late, due)
		}
		for _, k := range m.kinds {
			m.begin(k)
		}
		m.turn(min(due, m.until) - now())
	}
	cpu := cpuPct(sampled, sampleCPU(procs), dur.Seconds())
	unsent := int64(0)
	for _, k := range m.kinds {
		unsent += int64(len(k.late))
		k.late = nil
	}
	under := int64(m.open)
	m.settle()
	m.from, m.until = 0, 0
	m.drain()
	res := map[string]any{"players": len(m.gamers), "offered_per_s": rate, "rps": r3(float64(m.ok) / dur.Seconds()),
		"answered_per_s": r3(float64(m.within) / dur.Seconds()), "ok": m.ok, "bad": m.bad, "unsent": unsent, "under_way_at_end": under, "errors": m.errors, "failures": m.failures,
		"lat_ms": m.all.Lat(), "refused_ms": m.shed.Lat(), "send_lag_ms": m.lag.Lat(), "kinds": m.byKind(), "updates": m.ledger.judge(),
		"actions": map[string]int64{"sent": m.acted, "completed": m.solved}, "cpu_pct": cpu, "reconnects": m.reconn}
	mem := map[string]Mem{}
	for _, p := range procs {
		mem[p.Name] = readMem(p)
	}
	res["mem_kib"] = mem
	return res
}

func (m *mixed) byKind() map[string]Lat {
	out := map[string]Lat{}
	for _, k := range m.kinds {
		out[k.name] = k.lat.Lat()
	}
	return out
}

// settle waits for the calls under way.
func (m *mixed) settle() {
	for until := now() + int64(10*time.Second); m.open > 0 && now() < until; {
		m.turn(int64(100 * time.Millisecond))
	}
}

// drain polls until nobody has anything unread.
func (m *mixed) drain() {
	m.settle()
	var unread []*client
	for _, g := range m.gamers {
		if g.polls {
			unread = append(unread, g.client)
		}
	}
	for len(unread) > 0 {
		var again []*client
		m.each(unread, func(cl *client) {
			g := m.gamers[cl.index]
			m.call(cl, "POST", pollPath, g.pollBody(), now(), func(status int, b []byte) {
				if status != 200 && status != 429 {
					die("the last polls: %s answered %d %s", pollPath, status, b)
				}
				if status == 429 || m.take(g, b) > 0 {
					again = append(again, cl)
				}
			})
		})
		unread = again
	}
}

// meet waits until so many generators have come to a folder, so that they measure at the same time.
func meet(folder string, count int) {
	if err := os.WriteFile(filepath.Join(folder, strconv.Itoa(os.Getpid())), nil, 0o644); err != nil {
		die("%v", err)
	}
	for until := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if come, err := os.ReadDir(folder); err != nil || len(come) >= count {
			return
		}
		if time.Now().After(until) {
			die("not all generators have come to %s", folder)
		}
	}
}

func cmdMixed(args []string) {
	fs := flag.NewFlagSet("mixed", flag.ExitOnError)
	u := fs.String("url", "", "address of the server")
	key := fs.String("key", "", "project key")
	players := fs.Int("players", 1000, "simulated players, each with a connection")
	rates := fs.String("rates", "1500", "calls a second over all players; a rising list")
	size := fs.Int("size", 64, "bytes of padding in what is sent")
	lobbies := fs.Bool("lobbies", true, "a quarter sits in lobbies; false: they are in the menu")
	dur := fs.Duration("d", 10*time.Second, "measured time of each rate")
	warm := fs.Duration("warmup", 2*time.Second, "unmeasured time before")
	stop := fs.Float64("stop-p99", 0, "end after rates whose p99 is over so many ms, or that had an error")
	stopSteps := fs.Int("stop-steps", 1, "so many such rates in a row")
	meetAt := fs.String("meet", "", "an empty folder in which generators wait for each other once they are set up")
	meetCount := fs.Int("meet-count", 1, "how many they are")
	procs := fs.String("procs", "", "name=pid,...: process trees whose CPU and memory are reported")
	label := fs.String("label", "", "")
	out := fs.String("out", "", "append the results as JSON lines to this file")
	fs.Parse(args)
	if *players < 20 {
		die("-players must be at least 20")
	}
	runtime.LockOSThread()
	m := &mixed{crowd: newCrowd(parseTarget(*u), *key, *players), pad: strings.Repeat("x", *size)}
	for _, cl := range m.clients {
		m.gamers = append(m.gamers, &gamer{client: cl, seen: map[string]bool{}})
	}
	m.errors = map[string]int64{}
	m.ledger = newLedger()
	m.setUp("Player", *lobbies)
	if *meetAt != "" {
		meet(*meetAt, *meetCount)
	}
	over := 0
	for _, r := range strings.Split(*rates, ",") {
		rate, err := strconv.ParseFloat(r, 64)
		if err != nil || rate <= 0 {
			die("bad rate %q", r)
		}
		res := m.load(rate, *warm, *dur, parseProcs(*procs))
		res["lobbies"] = *lobbies
		emit(res, "mixed", *label, *out)
		if over++; m.all.Pct(99) <= *stop && m.bad == 0 {
			over = 0
		}
		if *stop > 0 && over >= *stopSteps {
			break
		}
	}
}
