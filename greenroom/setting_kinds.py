"""The kinds of values that settings have, each with its bounds and its description in words."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

_HOST_PATTERN = r"^[^\s/\[\]]+$"
_PORT = "a port number from 0 to 65535; 0 takes a free one"
WORKERS_MAX = 64
_COUNT = "a whole number from 1 to 1000000"
_SECONDS = "a number of seconds above 0, at most 86400"

Text = Annotated[str, Meta(min_length=1, description="a text that is not empty")]
Host = Annotated[str, Meta(pattern=_HOST_PATTERN, description="a host name or an IP address")]
Port = Annotated[int, Meta(ge=0, le=65535, description=_PORT)]
PublicPort = Annotated[int, Meta(ge=1, le=65535, description="a port number from 1 to 65535")]
Count = Annotated[int, Meta(ge=1, le=1_000_000, description=_COUNT)]
Partitions = (
    Annotated[int, Meta(ge=1, le=64, description="a whole number of shards from 1 to 64, or auto")]
    | Literal["auto"]
)
Bytes = Annotated[
    int, Meta(ge=1024, le=1 << 30, description="a number of bytes from 1024 to 1073741824")
]
Seconds = Annotated[float, Meta(gt=0, le=86_400, description=_SECONDS)]
DrainSeconds = Annotated[
    float, Meta(ge=0, le=3_600, description="a number of seconds from 0 to 3600")
]
WholeSeconds = Annotated[
    int, Meta(ge=1, le=86_400, description="a whole number of seconds from 1 to 86400")
]
Hours = Annotated[int, Meta(ge=1, le=8_760, description="a whole number of hours from 1 to 8760")]
Days = Annotated[int, Meta(ge=1, le=3_660, description="a whole number of days from 1 to 3660")]
Rate = Annotated[float, Meta(gt=0, le=1e9, description="a number a second, above 0")]
PlanLimit = Annotated[
    int, Meta(ge=0, le=10**15, description="a whole number from 0 to 1000000000000000")
]
Share = Annotated[float, Meta(gt=0, le=1, description="a number above 0, at most 1")]
AddressShare = Annotated[
    float, Meta(ge=0.05, le=1e9, description="a number from 0.05 to 1000000000")
]
"""With less, an address could not hold even one of what is shared in the smallest number, the 32
sign-ins."""
Flag = Annotated[bool, Meta(description="true or false")]
Workers = (
    Annotated[int, Meta(ge=1, le=WORKERS_MAX, description="a whole number from 1 to 64, or auto")]
    | Literal["auto"]
)
Factor = Annotated[float, Meta(gt=0, le=1e9, description="a number above 0, at most 1000000000")]
DatabaseUrl = Annotated[
    str,
    Meta(
        pattern=r"^(postgres(ql)?://|\s*\w+\s*=)",
        description="an address such as postgresql://user@host:5432/database",
    ),
]
BusUrls = Annotated[
    str,
    Meta(
        pattern=r"^\s*(nats|tls)://",
        description="addresses of NATS servers such as nats://host:4222, separated by commas",
    ),
]
PlatformUrl = Annotated[
    str,
    Meta(
        pattern=r"^(https://[^/?#\s@]+|http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?)"
        r"(/[^?#\s]*)?$",
        description="an https address such as https://partner.steam-api.com",
    ),
]
Networks = Annotated[
    list[str], Meta(description="addresses or networks such as 10.0.0.0/8, separated by commas")
]
BehaviourEntries = Annotated[
    list[str],
    Meta(description="[GAME][/TYPE]=package.module:Class entries, separated by commas"),
]
