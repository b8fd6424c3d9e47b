# Which packet numbers have come already: each is taken once, very old ones never.

const SIZE = 1024

var _seen = {}
var _highest = 0
var _taken = 0
var _skipped = 0


# Return how many have not come; a jump of more than the window is no loss.
func lost():
	return int(max(0, _highest - _skipped - _taken))


func is_fresh(number):
	return number > 0 and number > _highest - SIZE and not _seen.has(number)


# Note a fresh number, once its packet has proved genuine.
func take(number):
	var ahead = number - _highest
	if ahead > SIZE:
		_seen.clear()
		_skipped += ahead - 1
	else:
		for i in range(ahead):
			_seen.erase(_highest + 1 + i - SIZE)
	_highest = int(max(_highest, number))
	_seen[number] = true
	_taken += 1
