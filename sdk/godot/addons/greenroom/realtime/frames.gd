# The frames that a client sends.

const HEARTBEAT = {"type": "heartbeat"}
const WANT_STATE = {"type": "state"}
const OPEN_UDP = {"type": "udp_open", "suites": ["chacha20-poly1305"]}


static func send(command, data, target, target_ids):
	var frame = {"type": "send", "command": command, "data": data, "target": target}
	if target == "specific":
		frame.target_ids = []
		for id in target_ids:
			frame.target_ids.append(int(id))
	return frame


static func action(id, action_type, request_data, target_id, again):
	var frame = {"type": "action", "id": id, "action_type": action_type, "request_data": request_data}
	if target_id > 0:
		frame.target_id = int(target_id)
	if again:
		frame.again = true
	return frame
