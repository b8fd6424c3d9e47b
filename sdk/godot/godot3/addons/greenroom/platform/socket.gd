# A WebSocket of Godot 3. `poll` must be called often; `take` gives what has come.

const BUFFER_KIB = 4096
const PACKETS_MAX = 4096

var close_code = 1006
var close_reason = "cut off"
var _client = WebSocketClient.new()
var _is_open = false
var _is_over = false
var _texts = []


func _init():
	_client.connect("connection_established", self, "_on_open")
	_client.connect("data_received", self, "_on_data")
	_client.connect("connection_closed", self, "_on_end")
	_client.connect("connection_error", self, "_on_end")
	_client.connect("server_close_request", self, "_on_close_request")


# Begin to connect; return whether that was possible.
func open(url, token, is_web):
	_client.set_buffers(BUFFER_KIB, PACKETS_MAX, BUFFER_KIB, PACKETS_MAX)
	if is_web:  # browsers cannot set headers
		return _client.connect_to_url(url, PoolStringArray(["greenroom.v1", "token." + token])) == OK
	var headers = PoolStringArray(["X-Realtime-Token: " + token])
	return _client.connect_to_url(url, PoolStringArray(), false, headers) == OK


func poll():
	_client.poll()


func is_open():
	return _is_open and not _is_over


func is_over():
	return _is_over


# Return the next message; null if there is none.
func take():
	return null if _texts.size() == 0 else _texts.pop_front()


# Send a message; return whether there was room for it.
func put(text):
	return is_open() and _client.get_peer(1).put_packet(text.to_utf8()) == OK


func close():
	if is_open():
		_client.get_peer(1).close(1000, "")


# End the connection at once, without a word.
func cut():
	_client.disconnect_from_host()
	_is_over = true


func _on_open(_protocol = ""):
	_is_open = true
	_client.get_peer(1).set_write_mode(WebSocketPeer.WRITE_MODE_TEXT)


# Keep what has come: the client forgets it with the connection.
func _on_data():
	_texts.append(_client.get_peer(1).get_packet().get_string_from_utf8())


func _on_end(_was_clean = false):
	_is_over = true


func _on_close_request(code, reason):
	close_code = code
	close_reason = reason
