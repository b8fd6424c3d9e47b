# What Godot 3 has under other names than Godot 4.


static func milliseconds():
	return OS.get_ticks_msec()


# Return the value of a JSON text; null for one that is none, too.
static func parse(text):
	var parsed = JSON.parse(text)
	return parsed.result if parsed.error == OK else null


static func stringify(value):
	return to_json(value)


static func utf8(text):
	return text.to_utf8()


static func escape(text):
	return text.percent_encode()


static func link(source, signal_name, target, method, binds = []):
	source.connect(signal_name, target, method, binds)


# Begin a request; the signal `request_completed` tells its end.
static func begin(request, url, headers, method, body):
	return request.request(url, PoolStringArray(headers), true, method, body)


# Return the bytes from one position up to another, which is left out.
static func slice(bytes, begin_at, end_at):
	if end_at <= begin_at:
		return PoolByteArray()
	return bytes.subarray(begin_at, end_at - 1)


static func no_bytes():
	return PoolByteArray()


static func is_web():
	return OS.has_feature("HTML5")
