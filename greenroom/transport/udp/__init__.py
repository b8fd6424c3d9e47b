"""The UDP fast lane: its port, its sessions, and the turns that rooms take."""
