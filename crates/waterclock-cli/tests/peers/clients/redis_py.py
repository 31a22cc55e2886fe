"""redis_py PORT PROTOCOL: what redis-py must get from Waterclock."""

import sys

import redis

PORT, PROTOCOL = map(int, sys.argv[1:])
NAME = f"redis-py-{PROTOCOL}"


def refuses(what, *words):
    """Asking for this raises an error that says so."""
    try:
        reply = ask(*words)
    except redis.ResponseError as error:
        assert what in str(error), f"{words}: {error}"
    else:
        raise AssertionError(f"{words}: {reply}")


client = redis.Redis(port=PORT, protocol=PROTOCOL, client_name=NAME, decode_responses=True)
ask = client.execute_command

assert client.ping()
assert client.echo("héllo") == "héllo"
assert client.client_id() > 0
assert "redis_version" in client.info()

# Five at once, one a day after that: as redis-cell answers it.
for remaining in [4, 3, 2, 1, 0]:
    assert ask("CL.THROTTLE", NAME, 4, 1, 86400)[:4] == [0, 5, remaining, -1]
limited, limit, remaining, retry, reset = ask("CL.THROTTLE", NAME, 4, 1, 86400)
assert (limited, limit, remaining) == (1, 5, 0)
assert 86300 < retry <= 86400 and 5 * 86300 < reset <= 5 * 86400
assert client.delete(NAME) == 1
assert ask("CL.THROTTLE", NAME, 4, 1, 86400)[:3] == [0, 5, 4]

# A policy of the configuration: 100 at once, one every 3.6 s after that.
assert ask("RL.CHECK", "api", NAME, 100)[:4] == [1, 100, 0, 0]
allowed, limit, remaining, retry_ms, _, granted = ask("RL.CHECK", "api", NAME, 100)
assert (allowed, limit, granted) == (0, 100, 0) and 300_000 < retry_ms <= 360_000
assert ask("RL.CHECK", "api", NAME, 101)[3] == -1

# A thousand in one pipeline, and every answer belongs to its question.
pipeline = client.pipeline(transaction=False)
for _ in range(1000):
    pipeline.execute_command("CL.THROTTLE", f"{NAME} many", 499, 1, 86400)
replies = pipeline.execute()
assert [reply[0] for reply in replies] == [0] * 500 + [1] * 500
assert [reply[2] for reply in replies[:500]] == list(range(499, -1, -1))

# A pipeline with a mistake in it: the others are answered.
pipeline = client.pipeline(transaction=False)
pipeline.execute_command("PING")
pipeline.execute_command("CL.THROTTLE", NAME)
pipeline.execute_command("ECHO", "after")
first, second, third = pipeline.execute(raise_on_error=False)
assert isinstance(second, redis.ResponseError) and third == "after"

# What is wrong is said, and the connection is as good as before.
refuses("Cell error: Usage", "CL.THROTTLE", NAME)
refuses("no-such-policy", "RL.CHECK", "no-such-policy", "x")
refuses("unknown command", "EVAL", "return 1", 0)
assert client.ping()
client.close()
