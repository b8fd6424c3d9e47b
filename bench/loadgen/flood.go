package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// A flood is what one address does to take more than its share. Each connection runs it by itself; whatever ends
// it (the server too) is followed by the next connection, a moment later.
type flood func(p *presser, c *flooding) error

const (
	megabyte       = 1 << 20
	reconnectPause = 100 * time.Millisecond
	refusedPause   = 5 * time.Second
)

var floods = map[string]flood{
	"rules":    floodRules,
	"window":   floodWindow,
	"unread":   floodUnread,
	"bodies":   floodBodies,
	"healthz":  floodGet("/healthz"),
	"docs":     floodGet("/docs/redoc.standalone.js"),
	"heads":    floodHeads,
	"search":   floodSearch,
	"boards":   floodBoards,
	"rooms":    floodRooms,
	"stored":   floodStored,
	"settings": floodSettings,
	"streams":  floodStreams,
}

// flooding is one connection of a flood.
type flooding struct {
	net.Conn
	in     *bufio.Reader
	p      *presser
	number int64
}

type tally struct {
	statuses          [600]atomic.Int64
	sent, bytesSent   atomic.Int64
	numbers, sequence atomic.Int64
}

func (t *tally) row(res map[string]any) {
	found := map[string]int64{}
	for status := range t.statuses {
		if n := t.statuses[status].Load(); n > 0 {
			found[fmt.Sprint(status)] = n
		}
	}
	res["statuses"], res["sent"], res["bytes_sent"] = found, t.sent.Load(), t.bytesSent.Load()
}

// flooded runs a flood on one connection after the other.
func flooded(run flood) func(p *presser, conn net.Conn) {
	return func(p *presser, conn net.Conn) {
		number := p.numbers.Add(1)
		for time.Now().Before(p.until) {
			if conn != nil {
				c := &flooding{conn, bufio.NewReaderSize(conn, 64<<10), p, number}
				if err := run(p, c); err != nil && time.Now().Before(p.until) {
					p.ended.Add(1)
				}
				conn.Close()
			}
			time.Sleep(reconnectPause)
			conn = p.dial()
		}
		if conn != nil {
			conn.Close()
		}
	}
}

func (c *flooding) goesOn() bool { return time.Now().Before(c.p.until) }

// say sends bytes that count as one request.
func (c *flooding) say(data []byte) error {
	c.p.sent.Add(1)
	n, err := c.Write(data)
	c.p.bytesSent.Add(int64(n))
	return err
}

// hear reads one answer.
func (c *flooding) hear() (int, []byte, error) {
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, err
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if answer.StatusCode < len(c.p.statuses) {
		c.p.statuses[answer.StatusCode].Add(1)
	}
	if err == nil && answer.Close {
		err = io.EOF
	}
	return answer.StatusCode, body, err
}

func (c *flooding) ask(method, path, token string, body []byte) (int, []byte, error) {
	var head strings.Builder
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nX-Api-Token: %s\r\n", method, path, c.p.address, c.p.key)
	if token != "" {
		fmt.Fprintf(&head, "X-Game-Player-Token: %s\r\n", token)
	}
	fmt.Fprintf(&head, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	if err := c.say(append([]byte(head.String()), body...)); err != nil {
		return 0, nil, err
	}
	return c.hear()
}

// again asks the same thing without end, at the presser's pace.
func (c *flooding) again(next func() (string, string, []byte)) error {
	for c.goesOn() {
		c.p.pause()
		method, path, body := next()
		if _, _, err := c.ask(method, path, "", body); err != nil {
			return err
		}
	}
	return nil
}

// guest registers somebody; the token is empty where that was refused.
func (c *flooding) guest() (string, error) {
	_, body, err := c.ask("POST", "/api/game_players.php/register", "", []byte(`{"player_name":"flood"}`))
	var said struct {
		Token string `json:"private_key"`
	}
	json.Unmarshal(body, &said)
	return said.Token, err
}

// room makes a room with rules as large as the server lets them be; its id is empty where that was refused.
func (c *flooding) room(token string, realtime bool) (string, error) {
	for _, size := range []int{megabyte - 4096, 64<<10 - 64} {
		rules := `{"quotes":"` + strings.Repeat(`\"`, size/2) + `"}`
		body := fmt.Sprintf(`{"room_name":"flood","max_players":4,"realtime":%v,"rules":%s}`, realtime, rules)
		status, answer, err := c.ask("POST", "/api/game_room.php/create", token, []byte(body))
		if status != 400 || err != nil {
			var said struct {
				Room string `json:"room_id"`
			}
			json.Unmarshal(answer, &said)
			return said.Room, err
		}
	}
	return "", nil
}

// floodGet asks for one page again and again.
func floodGet(path string) flood {
	return func(p *presser, c *flooding) error {
		return c.again(func() (string, string, []byte) { return "GET", path, nil })
	}
}

// floodRules makes rooms with large rules, three a connection, and lists them.
func floodRules(p *presser, c *flooding) error {
	for i := 0; i < 3 && c.goesOn(); i++ {
		token, err := c.guest()
		if err == nil && token != "" {
			_, err = c.room(token, false)
		}
		if err != nil {
			return err
		}
	}
	return c.again(func() (string, string, []byte) {
		return "POST", "/api/game_room.php/list?format=engine", []byte(`{"limit":100}`)
	})
}

// floodRooms makes guests without end, each with a room of its own.
func floodRooms(p *presser, c *flooding) error {
	for c.goesOn() {
		c.p.pause()
		token, err := c.guest()
		if err == nil && token != "" {
			_, err = c.room(token, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// floodUnread asks for a large page and never reads it.
func floodUnread(p *presser, c *flooding) error {
	c.Conn.(*net.TCPConn).SetReadBuffer(4096)
	if err := c.say(fmt.Appendf(nil, "GET /openapi.json HTTP/1.1\r\nHost: %s\r\n\r\n", p.address)); err != nil {
		return err
	}
	for c.goesOn() {
		time.Sleep(reconnectPause)
	}
	return nil
}

// floodBodies sends all of a body but its end.
func floodBodies(p *presser, c *flooding) error {
	head := fmt.Sprintf("POST /api/game_players.php/register HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", p.address, megabyte)
	if err := c.say(append([]byte(head), bytes.Repeat([]byte(" "), megabyte-200)...)); err != nil {
		return err
	}
	_, _, err := c.hear()
	time.Sleep(refusedPause)
	return err
}

// floodHeads sends heads of thousands of fields.
func floodHeads(p *presser, c *flooding) error {
	head := "GET /healthz HTTP/1.1\r\nHost: " + p.address + "\r\n"
	head += strings.Repeat("a:\r\n", (32<<10-len(head)-2)/4) + "\r\n"
	for c.goesOn() {
		p.pause()
		if err := c.say([]byte(head)); err != nil {
			return err
		}
		if _, _, err := c.hear(); err != nil {
			return err
		}
	}
	return nil
}

// floodSearch asks the reference for a megabyte of words.
func floodSearch(p *presser, c *flooding) error {
	query := strings.Repeat("room player ", (megabyte-300)/12)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_api_reference","arguments":{"query":"` + query + `"}}}`
	return c.again(func() (string, string, []byte) { return "POST", "/mcp", []byte(call) })
}

// floodBoards asks for leaderboards that nobody has asked for before.
func floodBoards(p *presser, c *flooding) error {
	return c.again(func() (string, string, []byte) {
		n := p.sequence.Add(1)
		fields := make([]string, 16)
		for i := range fields {
			fields[i] = fmt.Sprintf(`"f%d_%d"`, n, i)
		}
		return "POST", "/api/leaderboard.php", []byte(`{"sort_by":[` + strings.Join(fields, ",") + `],"limit":100}`)
	})
}

// floodStored sends over a WebSocket what is stored for a member who is not connected.
func floodStored(p *presser, c *flooding) error {
	token, err := c.guest()
	if err != nil || token == "" {
		return err
	}
	other, err := c.guest()
	if err != nil || other == "" {
		return err
	}
	_, answer, err := c.ask("POST", "/api/game_room.php/create", token, []byte(`{"room_name":"flood","max_players":4,"realtime":true}`))
	var said struct {
		Room  string `json:"room_id"`
		Token string `json:"token"`
	}
	if json.Unmarshal(answer, &said); err != nil || said.Room == "" {
		return err
	}
	if _, _, err = c.ask("POST", "/api/game_room.php/"+said.Room+"/join", other, []byte("{}")); err != nil {
		return err
	}
	_, answer, err = c.ask("POST", "/api/realtime.php/token", token, []byte("{}"))
	if json.Unmarshal(answer, &said); err != nil || said.Token == "" {
		return err
	}
	channel, err := p.dialer.Dial("tcp", p.realtime)
	if err != nil {
		return err
	}
	defer channel.Close()
	channel.SetDeadline(p.until)
	fmt.Fprintf(channel, "GET / HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Realtime-Token: %s\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", p.realtime, said.Token)
	go io.Copy(io.Discard, channel)
	frame := masked(`{"type":"send","command":"flood","target":"others","data":"` + strings.Repeat("x", 60_000) + `"}`)
	for c.goesOn() {
		p.pause()
		p.sent.Add(1)
		n, err := channel.Write(frame)
		p.bytesSent.Add(int64(n))
		if err != nil {
			return err
		}
	}
	return nil
}

// masked is a WebSocket message of 126 bytes to 64 KiB, its mask all zeros.
func masked(text string) []byte {
	frame := binary.BigEndian.AppendUint16([]byte{0x81, 0xfe}, uint16(len(text)))
	return append(append(frame, 0, 0, 0, 0), text...)
}

// frame is one of HTTP/2.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(head, stream), payload...)
}

const (
	framePreface                    = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHeaders, frameSettings     = 1, 4
	flagEndStream, flagEndHeaders   = 1, 4
	settingWindow, streamsAtOnceMax = 4, 100
	streamsOfOne                    = 64
)

// floodWindow asks for large pages over HTTP/2 that there is no window for, and leaves at once.
func floodWindow(p *presser, c *flooding) error {
	window := []byte{0, settingWindow, 0, 0, 0, 0}
	sent := append([]byte(framePreface), frame(frameSettings, 0, 0, window)...)
	path := "/openapi.json"
	fields := []byte{0x82, 0x86, 0x04, byte(len(path))} // GET, http, :path
	fields = append(append(fields, path...), 0x01, 1, 'a')
	for i := uint32(0); i < streamsAtOnceMax; i++ {
		sent = append(sent, frame(frameHeaders, flagEndStream|flagEndHeaders, 2*i+1, fields)...)
	}
	if err := c.say(sent); err != nil {
		return err
	}
	_, err := c.in.ReadByte()
	c.Close()
	time.Sleep(time.Second)
	return err
}

// floodStreams asks for paths that do not exist over many streams at once, and again once all are answered.
func floodStreams(p *presser, c *flooding) error {
	path := "/nothing"
	fields := []byte{0x82, 0x86, 0x04, byte(len(path))} // GET, http, :path
	fields = append(append(fields, path...), 0x01, 1, 'a')
	sent := append([]byte(framePreface), frame(frameSettings, 0, 0, nil)...)
	for next := uint32(1); c.goesOn(); {
		for i := 0; i < streamsOfOne; i++ {
			sent = append(sent, frame(frameHeaders, flagEndStream|flagEndHeaders, next, fields)...)
			next += 2
		}
		p.sent.Add(streamsOfOne - 1)
		if err := c.say(sent); err != nil {
			return err
		}
		sent = sent[:0]
		for answered := 0; answered < streamsOfOne; {
			head := make([]byte, 9)
			if _, err := io.ReadFull(c.in, head); err != nil {
				return err
			}
			if _, err := c.in.Discard(int(head[0])<<16 | int(head[1])<<8 | int(head[2])); err != nil {
				return err
			}
			if head[3] <= frameHeaders && head[4]&flagEndStream != 0 {
				answered++
			}
		}
	}
	return nil
}

// floodSettings sends SETTINGS frames over HTTP/2, each of which wants an answer.
func floodSettings(p *presser, c *flooding) error {
	go io.Copy(io.Discard, c.Conn)
	if err := c.say([]byte(framePreface)); err != nil {
		return err
	}
	many := bytes.Repeat(frame(frameSettings, 0, 0, nil), 1000)
	for c.goesOn() {
		if err := c.say(many); err != nil {
			return err
		}
	}
	return nil
}
