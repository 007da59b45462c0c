"""What the scripts have in common: the server whose url is the script's argument, and checks that count
themselves."""

import sys

import lancedb
import pyarrow as pa

URL = sys.argv[1]
# The mark of the primary key.
KEY = {b"lance-schema:unenforced-primary-key:position": b"1"}
ID = pa.field("id", pa.int64(), metadata=KEY)
VECTOR = pa.field("vector", pa.list_(pa.float32(), 2))
# Of tables with a write tier.
SCHEMA = pa.schema([ID, ("name", pa.string()), VECTOR])

checks = 0


def connect(name="demo", url=URL):
    return lancedb.connect(f"db://{name}", api_key="sk_local", host_override=url)


async def connect_async():
    return await lancedb.connect_async("db://demo", api_key="sk_local", host_override=URL)


def rows(*ids, name="a"):
    """Rows of these ids; the vector of an id is [id, 0]."""
    return [{"id": n, "name": f"{name}{n}", "vector": [n, 0.0]} for n in ids]


def ids(rows):
    return [row["id"] for row in rows]


def named(rows):
    return {row["id"]: row["name"] for row in rows}


def same(found, expected):
    global checks
    checks += 1
    assert found == expected, f"found {found!r}, expected {expected!r}"


def holds(condition, what=None):
    global checks
    checks += 1
    assert condition, repr(what)


def failed(error, words):
    for word in words:
        holds(word in str(error), f"{word!r} is not in: {error}")


def refused(work, *words):
    """What is done fails, and its text has all of these words."""
    try:
        done = work()
    except Exception as error:  # the client has no common class for what a server says
        return failed(error, ("", *words))
    raise AssertionError(f"it was not refused ({words}): {done!r}")


async def refused_async(work, *words):
    try:
        done = await work
    except Exception as error:  # as above
        return failed(error, ("", *words))
    raise AssertionError(f"it was not refused ({words}): {done!r}")


def end():
    print(f"{checks} checks")
    print("ok")
