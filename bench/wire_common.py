"""What the processes of `bench/wire.py` share."""

from __future__ import annotations

import resource

NO_FILES = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65_536)
