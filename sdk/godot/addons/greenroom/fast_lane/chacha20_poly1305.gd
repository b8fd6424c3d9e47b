# The cipher of RFC 8439, for Godot has none that shows forgeries. One key, and packets small enough that
# nobody waits. Tested against the vectors of the protocol.

const Platform = preload("../platform/platform.gd")

const KEY_BYTES = 32
const TAG_BYTES = 16
const BLOCK_BYTES = 64
const WORD = 0xffffffff
const LIMB = 0x3ffffff
# The words that each quarter round mixes: the columns of the state, then its diagonals.
const QUARTERS = [
	[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
	[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14],
]

var _start = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574]


# Use a key of 32 bytes.
func setup(key):
	for i in range(8):
		_start.append(_word(key, 4 * i))
	for _i in range(4):
		_start.append(0)


# Return a packet: the header, whose last 8 bytes no packet had before, the body sealed, and the tag.
func seal(header, body):
	var sealed = _cipher(header, body)
	var packet = Platform.no_bytes()
	packet.append_array(header)
	packet.append_array(sealed)
	packet.append_array(_tag(header, sealed))
	return packet


# Return the body of a packet; null if it is not as it was sealed.
func open(packet, header_bytes):
	var end = packet.size() - TAG_BYTES
	if end < header_bytes:
		return null
	var header = Platform.slice(packet, 0, header_bytes)
	var sealed = Platform.slice(packet, header_bytes, end)
	var tag = _tag(header, sealed)
	var difference = 0  # all bytes are compared, so that time tells nothing
	for i in range(TAG_BYTES):
		difference |= tag[i] ^ packet[end + i]
	return _cipher(header, sealed) if difference == 0 else null


func _cipher(header, bytes):
	var found = Platform.no_bytes()
	var block = null
	for i in range(bytes.size()):
		var at = i % BLOCK_BYTES
		if at == 0:
			block = _block(header, 1 + i / BLOCK_BYTES)
		found.append(bytes[i] ^ block[at])
	return found


# Return 64 bytes of the key stream.
func _block(header, counter):
	_start[12] = int(counter)
	_start[14] = _word(header, header.size() - 8)
	_start[15] = _word(header, header.size() - 4)
	var words = _mixed(_start.duplicate())
	var bytes = []
	for i in range(16):
		var word = words[i] + _start[i]
		bytes.append(word & 255)
		bytes.append((word >> 8) & 255)
		bytes.append((word >> 16) & 255)
		bytes.append((word >> 24) & 255)
	return bytes


# Return the 16 words after 20 rounds. In one function, for calls are dear in GDScript.
static func _mixed(words):
	for _round in range(10):
		for quarter in QUARTERS:
			var at_a = quarter[0]
			var at_b = quarter[1]
			var at_c = quarter[2]
			var at_d = quarter[3]
			var b = words[at_b]
			var a = (words[at_a] + b) & WORD
			var d = words[at_d] ^ a
			d = ((d << 16) | (d >> 16)) & WORD
			var c = (words[at_c] + d) & WORD
			b ^= c
			b = ((b << 12) | (b >> 20)) & WORD
			a = (a + b) & WORD
			d ^= a
			d = ((d << 8) | (d >> 24)) & WORD
			c = (c + d) & WORD
			b ^= c
			words[at_a] = a
			words[at_b] = ((b << 7) | (b >> 25)) & WORD
			words[at_c] = c
			words[at_d] = d
	return words


# Return the tag of a header and a sealed body.
func _tag(header, sealed):
	var bytes = _padded(header)
	bytes.append_array(_padded(sealed))
	for length in [header.size(), sealed.size()]:
		for i in range(8):
			bytes.append((length >> (8 * i)) & 255)
	return _sum(_block(header, 0), bytes)


# Return bytes, filled up with zeros to whole blocks of Poly1305.
static func _padded(bytes):
	var found = Platform.no_bytes()
	found.append_array(bytes)
	while found.size() % TAG_BYTES != 0:
		found.append(0)
	return found


# Return Poly1305 of whole blocks: the key is 32 bytes, and the sum has five limbs of 26 bits.
static func _sum(key, bytes):
	var r0 = _word(key, 0) & 0x3ffffff
	var r1 = (_word(key, 3) >> 2) & 0x3ffff03
	var r2 = (_word(key, 6) >> 4) & 0x3ffc0ff
	var r3 = (_word(key, 9) >> 6) & 0x3f03fff
	var r4 = (_word(key, 12) >> 8) & 0x00fffff
	var h = [0, 0, 0, 0, 0]
	for at in range(0, bytes.size(), TAG_BYTES):
		var h0 = h[0] + (_word(bytes, at) & LIMB)
		var h1 = h[1] + ((_word(bytes, at + 3) >> 2) & LIMB)
		var h2 = h[2] + ((_word(bytes, at + 6) >> 4) & LIMB)
		var h3 = h[3] + ((_word(bytes, at + 9) >> 6) & LIMB)
		var h4 = h[4] + ((_word(bytes, at + 12) >> 8) | (1 << 24))
		h = _carried([
			h0 * r0 + 5 * (h1 * r4 + h2 * r3 + h3 * r2 + h4 * r1),
			h0 * r1 + h1 * r0 + 5 * (h2 * r4 + h3 * r3 + h4 * r2),
			h0 * r2 + h1 * r1 + h2 * r0 + 5 * (h3 * r4 + h4 * r3),
			h0 * r3 + h1 * r2 + h2 * r1 + h3 * r0 + 5 * h4 * r4,
			h0 * r4 + h1 * r3 + h2 * r2 + h3 * r1 + h4 * r0,
		])
	return _finished(_carried(_carried(h)), key)


# Return limbs, each of which but the second has 26 bits now; the prime is 2^130 - 5.
static func _carried(limbs):
	var carry = 0
	var found = []
	for limb in limbs:
		found.append((limb + carry) & LIMB)
		carry = (limb + carry) >> 26
	found[0] += 5 * carry
	found[1] += found[0] >> 26
	found[0] &= LIMB
	return found


# Return the 16 bytes of the tag.
static func _finished(h, key):
	var less = []  # the sum less the prime
	var carry = 5
	for limb in h:
		less.append((limb + carry) & LIMB)
		carry = (limb + carry) >> 26
	if carry > 0:
		h = less
	var words = [
		h[0] | (h[1] << 26), (h[1] >> 6) | (h[2] << 20), (h[2] >> 12) | (h[3] << 14), (h[3] >> 18) | (h[4] << 8),
	]
	var tag = Platform.no_bytes()
	var whole = 0
	for i in range(4):
		whole += (words[i] & WORD) + _word(key, 16 + 4 * i)
		for shift in [0, 8, 16, 24]:
			tag.append((whole >> shift) & 255)
		whole = whole >> 32
	return tag


# Return a word whose lowest byte comes first.
static func _word(bytes, at):
	return bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)
