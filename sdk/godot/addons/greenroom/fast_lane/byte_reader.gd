# Reads numbers from bytes, the highest byte first.

const Platform = preload("../platform/platform.gd")

# Whether more was asked for than there is.
var is_cut = false
var _bytes = null
var _at = 0


func setup(bytes):
	_bytes = bytes
	return self


# Return how many bytes are left.
func left():
	return _bytes.size() - _at


# Return a number of so many bytes; 0 if they are not there.
func take(count):
	if count > left():
		is_cut = true
		return 0
	var value = 0
	for _i in range(count):
		value = (value << 8) | _bytes[_at]
		_at += 1
	return value


# Return the next bytes; none if they are not there.
func take_bytes(count):
	if count > left():
		is_cut = true
		return Platform.no_bytes()
	_at += count
	return Platform.slice(_bytes, _at - count, _at)


# Return the next bytes as a text; null if they are not there, or no UTF-8.
func take_text(count):
	var bytes = take_bytes(count)
	var text = bytes.get_string_from_utf8()
	return text if not is_cut and Platform.utf8(text) == bytes else null
