import type { JsonObject } from '../decision.js';
import { isObject } from '../decision.js';
import { notWaterclock, WaterclockError, type ErrorKind } from '../error.js';
import type { Answer } from '../transport.js';
import { ErrorReply, type Reply } from './parse.js';

// The server's text is that of Redis, which does not say what to do.
const NO_TOKEN = 'NOAUTH: it asks for a token; give the client one as `token`';

/** The error that a reply describes. */
export function readError(reply: ErrorReply, server: string): WaterclockError {
  const code = reply.text.split(' ', 1)[0] ?? '';
  return new WaterclockError(kindOf(code), `${server} answered ${code === 'NOAUTH' ? NO_TOKEN : reply.text}`, {
    code,
    deniedByPolicy: code === 'UNAVAILABLE',
  });
}

/** A decision in JSON, with the header fields that it contains. */
export function readAnswer(reply: Reply, server: string): Answer {
  const { headers, ...body } = readJson(reply, server);
  return { body, headers: isObject(headers) ? (headers as Record<string, string>) : {} };
}

export function readAnswers(reply: Reply, server: string): readonly Answer[] {
  if (!Array.isArray(reply)) throw notWaterclock(server);
  return reply.map((line: Reply) => readAnswer(line, server));
}

export function readJson(reply: Reply, server: string): JsonObject {
  if (typeof reply !== 'string') throw notWaterclock(server);
  try {
    const value: unknown = JSON.parse(reply);
    if (isObject(value)) return value;
  } catch {
    // Not JSON: the error below says so.
  }
  throw notWaterclock(server);
}

function kindOf(code: string): ErrorKind {
  switch (code) {
    case 'NOAUTH':
    case 'WRONGPASS':
    case 'NOPERM':
      return 'unauthorized';
    case 'BUSY':
    case 'UNAVAILABLE':
      return 'unavailable';
    default:
      return 'invalid';
  }
}
