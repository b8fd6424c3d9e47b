package main

import (
	"encoding/json"
	"fmt"
	"syscall"
)

// A pass is what a member of a realtime room connects with.
type pass struct {
	Token  string
	Server struct {
		Host     string
		Port     int
		Protocol string
	} `json:"realtime_server"`
}

// realtimeRooms registers players, seats them in realtime rooms over the API, and returns a pass for
// each: player i is in room i/size.
func realtimeRooms(t target, key string, rooms, size int, names string) []pass {
	c := newCrowd(t, key, rooms*size)
	defer func() {
		for _, cl := range c.clients {
			syscall.Close(cl.fd)
		}
		syscall.Close(c.p.fd)
	}()
	must := func(cl *client, path string, body []byte, then func([]byte)) {
		c.call(cl, "POST", path, body, now(), func(status int, answer []byte) {
			if status != 200 {
				die("setting up: %s answered %d %s", path, status, answer)
			}
			then(answer)
		})
	}
	c.each(c.clients, func(cl *client) {
		body := fmt.Appendf(nil, `{"player_name":"%s %d"}`, names, cl.index)
		must(cl, "/api/game_players.php/register", body, func(b []byte) { cl.token = text(b, "private_key") })
	})
	ids := make([]string, rooms)
	var hosts, guests []*client
	for i, cl := range c.clients {
		if i%size == 0 {
			hosts = append(hosts, cl)
		} else {
			guests = append(guests, cl)
		}
	}
	create := fmt.Appendf(nil, `{"max_players":%d,"realtime":true}`, max(size, 2))
	c.each(hosts, func(cl *client) {
		must(cl, "/api/game_room.php/create", create, func(b []byte) { ids[int(cl.index)/size] = text(b, "room_id") })
	})
	c.each(guests, func(cl *client) {
		must(cl, "/api/game_room.php/"+ids[int(cl.index)/size]+"/join", []byte("{}"), func([]byte) {})
	})
	passes := make([]pass, rooms*size)
	c.each(c.clients, func(cl *client) {
		must(cl, "/api/realtime.php/token", []byte("{}"), func(b []byte) {
			if err := json.Unmarshal(b, &passes[cl.index]); err != nil {
				die("setting up: %v in %s", err, b)
			}
		})
	})
	return passes
}
