# What Godot 4 has under other names than Godot 3.


static func milliseconds():
	return Time.get_ticks_msec()


# Return the value of a JSON text; null for one that is none, too.
static func parse(text):
	var json = JSON.new()
	return json.data if json.parse(text) == OK else null


static func stringify(value):
	return JSON.stringify(value)


static func utf8(text):
	return text.to_utf8_buffer()


static func escape(text):
	return text.uri_encode()


static func link(source, signal_name, target, method, binds = []):
	source.connect(signal_name, Callable(target, method).bindv(binds))


# Begin a request; the signal `request_completed` tells its end.
static func begin(request, url, headers, method, body):
	return request.request(url, PackedStringArray(headers), method, body)


# Return the bytes from one position up to another, which is left out.
static func slice(bytes, begin_at, end_at):
	return bytes.slice(begin_at, end_at)


static func no_bytes():
	return PackedByteArray()


static func is_web():
	return OS.has_feature("web")
