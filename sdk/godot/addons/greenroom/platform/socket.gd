# A WebSocket of Godot 4. `poll` must be called often; `take` gives what has come.

const BUFFER_BYTES = 4194304
const PACKETS_MAX = 4096

var close_code = 1006
var close_reason = "cut off"
var _peer = WebSocketPeer.new()


# Begin to connect; return whether that was possible.
func open(url, token, is_web):
	_peer.inbound_buffer_size = BUFFER_BYTES
	_peer.outbound_buffer_size = BUFFER_BYTES
	_peer.max_queued_packets = PACKETS_MAX
	if is_web:  # browsers cannot set headers
		_peer.supported_protocols = PackedStringArray(["greenroom.v1", "token." + token])
	else:
		_peer.handshake_headers = PackedStringArray(["X-Realtime-Token: " + token])
	return _peer.connect_to_url(url) == OK


func poll():
	_peer.poll()
	if is_over() and _peer.get_close_code() >= 0:
		close_code = _peer.get_close_code()
		close_reason = _peer.get_close_reason()


func is_open():
	return _peer.get_ready_state() == WebSocketPeer.STATE_OPEN


func is_over():
	return _peer.get_ready_state() == WebSocketPeer.STATE_CLOSED


# Return the next message; null if there is none.
func take():
	if _peer.get_available_packet_count() == 0:
		return null
	return _peer.get_packet().get_string_from_utf8()


# Send a message; return whether there was room for it.
func put(text):
	return _peer.send_text(text) == OK


func close():
	_peer.close(1000, "")


# End the connection at once, without a word.
func cut():
	_peer.close(-1)
