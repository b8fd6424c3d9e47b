package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"syscall"
	"time"
)

// The fast lane of docs/reference/realtime-protocol.md, as far as a load needs it.
const (
	laneVersion = 0x47
	laneHeader  = 17
	laneTag     = 16
	packetMax   = 1200

	framePing      = 1
	framePong      = 2
	frameChallenge = 3
	frameResponse  = 4
	frameMessage   = 5

	toOthers = 2
)

// lane is a client's end of a session.
type lane struct {
	fd      int
	session []byte
	out, in protection
	number  uint64 // of the last packet sent
	highest uint64 // of those received
	packets int64  // received
}

// protection seals and opens the packets of one direction.
type protection interface {
	seal(dst, number, header, body []byte) []byte
	open(dst, number, header, sealed []byte) ([]byte, bool)
}

type gcm struct {
	aead  cipher.AEAD
	nonce [12]byte
}

func (g *gcm) seal(dst, number, header, body []byte) []byte {
	copy(g.nonce[4:], number)
	return g.aead.Seal(dst, g.nonce[:], body, header)
}

func (g *gcm) open(dst, number, header, sealed []byte) ([]byte, bool) {
	copy(g.nonce[4:], number)
	body, err := g.aead.Open(dst, g.nonce[:], sealed, header)
	return body, err == nil
}

type tagged struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

func (t *tagged) tag(header, body []byte) []byte {
	t.mac.Reset()
	t.mac.Write(header)
	t.mac.Write(body)
	return t.mac.Sum(t.sum[:0])[:laneTag]
}

func (t *tagged) seal(dst, number, header, body []byte) []byte {
	return append(append(dst, body...), t.tag(header, body)...)
}

func (t *tagged) open(dst, number, header, sealed []byte) ([]byte, bool) {
	body := sealed[:len(sealed)-laneTag]
	return body, hmac.Equal(sealed[len(body):], t.tag(header, body))
}

func protect(suite, key string) protection {
	k, err := hex.DecodeString(key)
	if err != nil {
		die("a key is no hex: %v", err)
	}
	switch suite {
	case "aes-256-gcm":
		block, err := aes.NewCipher(k)
		if err != nil {
			die("%v", err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			die("%v", err)
		}
		return &gcm{aead: aead}
	case "hmac-sha256":
		return &tagged{mac: hmac.New(sha256.New, k)}
	}
	die("loadgen has no suite %q", suite)
	return nil
}

// laneKeys is the data of the control channel's answer to udp_open.
type laneKeys struct {
	Port      int
	Session   string
	Suite     string
	ClientKey string `json:"client_key"`
	ServerKey string `json:"server_key"`
}

func openLane(k laneKeys) (*lane, error) {
	session, err := hex.DecodeString(k.Session)
	if err != nil {
		return nil, err
	}
	l := &lane{fd: udpSocket(k.Port), session: session, out: protect(k.Suite, k.ClientKey), in: protect(k.Suite, k.ServerKey)}
	return l, l.showAddress()
}

// udpSocket returns a non-blocking socket with an address of its own, which speaks to a port here.
func udpSocket(port int) int {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		err = syscall.Connect(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err != nil {
		die("a UDP socket: %v", err)
	}
	return fd
}

// packet appends a packet with these frames.
func (l *lane) packet(dst, body []byte) []byte {
	l.number++
	at := len(dst)
	dst = append(append(dst, laneVersion), l.session...)
	dst = binary.BigEndian.AppendUint64(dst, l.number)
	header := dst[at:]
	return l.out.seal(dst, header[9:], header, body)
}

// frames returns what is in a packet; nil if it is not genuine.
func (l *lane) frames(dst, p []byte) []byte {
	if len(p) < laneHeader+laneTag || p[0] != laneVersion {
		return nil
	}
	body, ok := l.in.open(dst, p[9:laneHeader], p[:laneHeader], p[laneHeader:])
	if !ok {
		return nil
	}
	l.packets++
	l.highest = max(l.highest, binary.BigEndian.Uint64(p[9:]))
	return body
}

// showAddress goes through the challenge, until a PING has been answered.
func (l *lane) showAddress() error {
	ping := []byte{framePing, 0, 0, 0, 1, 0, 0, 0, 0}
	buf := make([]byte, 2048)
	for try := 0; try < 50; try++ {
		syscall.Write(l.fd, l.packet(nil, ping))
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
			n, err := syscall.Read(l.fd, buf)
			if err == syscall.EAGAIN || err == syscall.EINTR {
				time.Sleep(50 * time.Microsecond)
				continue
			}
			if err != nil {
				return err
			}
			body := l.frames(nil, buf[:n])
			if len(body) >= 9 && body[0] == frameChallenge {
				response := append([]byte{frameResponse}, body[1:9]...)
				syscall.Write(l.fd, l.packet(nil, append(response, ping[:5]...)))
			} else if len(body) >= 5 && body[0] == framePong {
				return nil
			}
		}
	}
	return fmt.Errorf("nobody answers on the UDP port")
}

// message appends a MESSAGE to the others in the room.
func message(dst []byte, command string, data []byte) []byte {
	dst = append(dst, frameMessage, toOthers, 0, 0, 0, 0, 0, 0, 0, byte(len(command)))
	dst = append(dst, command...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(data)))
	return append(dst, data...)
}

// eachMessage calls f with the data of every MESSAGE of the server.
func eachMessage(body []byte, f func(data []byte)) {
	for len(body) >= 17 && body[0] == frameMessage {
		at := 17 + int(body[16])
		if len(body) < at+2 {
			return
		}
		end := at + 2 + int(binary.BigEndian.Uint16(body[at:]))
		if len(body) < end {
			return
		}
		f(body[at+2 : end])
		body = body[end:]
	}
}
