// What a Redis client of Node must get from Waterclock. `ask` sends one command, given as its words, and
// promises the reply; `askMany` sends many at once, and promises the replies in order.
const assert = require("node:assert/strict");

const allowed = (reply) => reply[0] === 0;

module.exports = async function session({ ask, askMany }, name) {
  assert.equal(await ask("PING"), "PONG");
  assert.equal(await ask("ECHO", "héllo"), "héllo");
  assert.equal(await ask("SELECT", "0"), "OK");
  assert.equal(await ask("CLIENT", "SETNAME", name), "OK");
  assert.ok(Number.isInteger(await ask("CLIENT", "ID")));

  // Five at once, one a day after that: as redis-cell answers it.
  const key = `${name} five`;
  for (const remaining of [4, 3, 2, 1, 0]) {
    const reply = await ask("CL.THROTTLE", key, "4", "1", "86400");
    assert.deepEqual(reply.slice(0, 4), [0, 5, remaining, -1]);
  }
  const refused = await ask("CL.THROTTLE", key, "4", "1", "86400", "1");
  assert.deepEqual(refused.slice(0, 3), [1, 5, 0]);
  assert.ok(refused[3] > 86300 && refused[3] <= 86400, `retry in ${refused[3]} s`);
  assert.ok(refused[4] > 5 * 86300 && refused[4] <= 5 * 86400, `full in ${refused[4]} s`);
  assert.equal(await ask("DEL", key), 1);
  assert.deepEqual((await ask("CL.THROTTLE", key, "4", "1", "86400")).slice(0, 3), [0, 5, 4]);

  // A policy of the configuration: 100 at once, one every 3.6 s after that.
  const checked = await ask("RL.CHECK", "api", name, "100");
  assert.deepEqual(checked.slice(0, 4), [1, 100, 0, 0]);
  assert.ok(checked[4] > 350_000 && checked[4] <= 360_000, `full in ${checked[4]} ms`);
  const full = await ask("RL.CHECK", "api", name, "100");
  assert.deepEqual(full.slice(0, 2), [0, 100]);
  assert.ok(full[3] > 300_000 && full[3] <= 360_000, `retry in ${full[3]} ms`);
  assert.deepEqual((await ask("RL.CHECK", "api", name, "101")).slice(0, 4), [0, 100, full[2], -1]);
  assert.deepEqual((await ask("RL.PEEK", "api", `${name} else`)).slice(0, 3), [1, 100, 100]);

  // A thousand at once, and every answer belongs to its question.
  const words = ["CL.THROTTLE", `${name} many`, "499", "1", "86400"];
  const replies = await askMany(Array(1000).fill(words));
  assert.equal(replies.length, 1000);
  assert.deepEqual(replies.map(allowed), replies.map((_, i) => i < 500));
  assert.deepEqual(replies.slice(0, 500).map((reply) => reply[2]), replies.slice(0, 500).map((_, i) => 499 - i));

  // What is wrong is said, and the connection is as good as before.
  await assert.rejects(ask("CL.THROTTLE", key), /Cell error: Usage/);
  await assert.rejects(ask("CL.THROTTLE", key, "x", "1", "60"), /Cell error/);
  await assert.rejects(ask("RL.CHECK", "no-such-policy", "x"), /no-such-policy/);
  await assert.rejects(ask("EVAL", "return 1", "0"), /unknown command/i);
  assert.equal(await ask("PING"), "PONG");
};
