/** What the server answers to one command. */
export type Reply = string | number | null | ErrorReply | readonly Reply[];

/** An error of the Redis protocol: a kind and a sentence, such as `BUSY the server is overloaded`. */
export class ErrorReply {
  constructor(readonly text: string) {}
}

/** The bytes are not the Redis protocol. */
export class ProtocolError extends Error {
  constructor(what: string) {
    super(`it sent ${what}`);
  }
}

const MAX_REPLY_BYTES = 64 * 1024 * 1024;
const MAX_DEPTH = 8;
const CR = 13;
const LF = 10;

/** An array whose values have not all arrived. */
interface OpenArray {
  readonly length: number;
  readonly values: Reply[];
}

/** Reads replies (RESP2) from bytes as they arrive. */
export class Parser {
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  /** The arrays around the next value, outermost first. They are kept, so that no value is read twice. */
  readonly #open: OpenArray[] = [];
  /** Bytes received since the last complete reply. */
  #pendingBytes = 0;

  /** Adds bytes, and gives every reply that they complete. */
  *push(chunk: Buffer): Generator<Reply> {
    const rest = this.#bytes.subarray(this.#at);
    this.#bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    this.#at = 0;
    this.#pendingBytes += chunk.length;
    for (let value = this.#value(); value !== undefined; value = this.#value()) {
      const reply = this.#complete(value);
      if (reply === undefined) continue;
      this.#pendingBytes = this.#bytes.length - this.#at;
      yield reply;
    }
    if (this.#pendingBytes > MAX_REPLY_BYTES) throw new ProtocolError(`a reply of more than ${MAX_REPLY_BYTES} bytes`);
  }

  /** Puts a value into the array around it, and gives the reply that is complete with it. */
  #complete(value: Reply): Reply | undefined {
    for (let array = this.#open.at(-1); array !== undefined; array = this.#open.at(-1)) {
      array.values.push(value);
      if (array.values.length < array.length) return undefined;
      this.#open.pop();
      value = array.values;
    }
    return value;
  }

  /** The next value that is not an array with values in it; `undefined`: it is not complete yet. */
  #value(): Reply | undefined {
    for (;;) {
      const start = this.#at;
      const line = this.#line();
      if (line === undefined) return undefined;
      const rest = line.slice(1);
      switch (line[0]) {
        case '+':
          return rest;
        case '-':
          return new ErrorReply(rest);
        case ':':
          return integer(rest);
        case '$': {
          const text = this.#bulk(lengthOf(rest));
          if (text === undefined) this.#at = start;
          return text;
        }
        case '*': {
          const length = lengthOf(rest);
          if (length === null) return null;
          if (length === 0) return [];
          if (this.#open.length === MAX_DEPTH) throw new ProtocolError('arrays nested too deeply');
          this.#open.push({ length, values: [] });
          break;
        }
        default:
          throw new ProtocolError(`a reply that begins with ${JSON.stringify(line.slice(0, 20))}`);
      }
    }
  }

  #line(): string | undefined {
    const end = this.#bytes.indexOf(LF, this.#at);
    if (end < 0) return undefined;
    if (this.#bytes[end - 1] !== CR || end - 1 <= this.#at) throw new ProtocolError('a line without its end');
    const line = this.#bytes.toString('utf8', this.#at, end - 1);
    this.#at = end + 1;
    return line;
  }

  #bulk(length: number | null): string | null | undefined {
    if (length === null) return null;
    const end = this.#at + length;
    if (this.#bytes.length < end + 2) return undefined;
    if (this.#bytes[end] !== CR || this.#bytes[end + 1] !== LF) throw new ProtocolError('a text without its end');
    const text = this.#bytes.toString('utf8', this.#at, end);
    this.#at = end + 2;
    return text;
  }
}

/** The length of a text or an array; `null`: -1, there is none. */
function lengthOf(text: string): number | null {
  const length = integer(text);
  if (length < -1) throw new ProtocolError(`${length} for a length`);
  return length === -1 ? null : length;
}

function integer(text: string): number {
  if (!/^[+-]?\d+$/.test(text)) throw new ProtocolError(`${JSON.stringify(text)} for a number`);
  return Number(text);
}
