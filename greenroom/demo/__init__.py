"""The demo: two games with bots, and the page that plays them.

`greenroom demo` serves it.
"""
