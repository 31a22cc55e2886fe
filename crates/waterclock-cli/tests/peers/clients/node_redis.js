// node_redis PORT PROTOCOL
const { createClient } = require("redis");
const session = require("./session.js");

const [port, protocol] = process.argv.slice(2).map(Number);

async function main() {
  const client = createClient({
    socket: { port, reconnectStrategy: false },
    RESP: protocol,
    name: "from-node-redis",
  });
  client.on("error", (error) => console.error(error));
  await client.connect();
  const ask = (...words) => client.sendCommand(words);
  // Commands that are sent without waiting for replies go out as one.
  const askMany = (commands) => Promise.all(commands.map((words) => ask(...words)));
  await session({ ask, askMany }, `node-redis-${protocol}`);
  await client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
