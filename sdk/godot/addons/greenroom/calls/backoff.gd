# Pauses after failures: random, so that clients that failed together come back apart.


# Return the seconds to wait after so many failures in a row, from 1.
static func pause(failures, first = 0.1, longest = 5.0):
	var chance = RandomNumberGenerator.new()  # Godot 3 begins each run with the same numbers
	chance.randomize()
	return chance.randf() * min(first * pow(2.0, min(failures - 1, 30)), longest)
