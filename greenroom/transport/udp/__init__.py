"""The port of the UDP fast lane, its sessions, and the turns that rooms take in sending."""
