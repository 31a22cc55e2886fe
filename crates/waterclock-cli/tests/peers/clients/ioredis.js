// ioredis PORT PROTOCOL
const Redis = require("ioredis").default ?? require("ioredis");
const session = require("./session.js");

const [port, protocol] = process.argv.slice(2).map(Number);

async function main() {
  const client = new Redis({
    port,
    protocol,
    connectionName: "from-ioredis",
    maxRetriesPerRequest: 0,
    retryStrategy: null,
  });
  const ask = (...words) => client.call(...words);
  const askMany = async (commands) => {
    const replies = await client.pipeline(commands.map((words) => ["call", ...words])).exec();
    return replies.map(([error, reply]) => {
      if (error) throw error;
      return reply;
    });
  };
  await session({ ask, askMany }, `ioredis-${protocol}`);
  await client.quit();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
