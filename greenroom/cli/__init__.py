"""The command line of Greenroom.

`main.py` finds the command. Every other module has the commands of one subject, or what several
commands share.
"""
