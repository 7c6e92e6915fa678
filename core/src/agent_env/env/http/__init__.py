"""A small HTTP/1.1: a parser without IO for either side, a server and a client connection on asyncio protocols.

It exists because an env process must be up in milliseconds: the usual servers cost more CPU to import and run than
the whole of an episode.
"""

from __future__ import annotations
