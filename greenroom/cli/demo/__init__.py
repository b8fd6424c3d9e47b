"""The command `greenroom demo`."""
