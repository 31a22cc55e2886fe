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

/** Reads replies (RESP2) from bytes as they arrive. */
export class Parser {
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;

  /** Adds bytes, and gives every reply that they complete. */
  *push(chunk: Buffer): Generator<Reply> {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
    for (;;) {
      this.#at = 0;
      const reply = this.#value(0);
      if (reply === undefined) break;
      this.#bytes = this.#bytes.subarray(this.#at);
      yield reply;
    }
    if (this.#bytes.length > MAX_REPLY_BYTES) throw new ProtocolError(`a reply of more than ${MAX_REPLY_BYTES} bytes`);
  }

  /** `undefined`: it is not complete yet. */
  #value(depth: number): Reply | undefined {
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
      case '$':
        return this.#bulk(integer(rest));
      case '*':
        return this.#array(integer(rest), depth);
      default:
        throw new ProtocolError(`a reply that begins with ${JSON.stringify(line.slice(0, 20))}`);
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

  #bulk(length: number): string | null | undefined {
    if (length < 0) return null;
    const end = this.#at + length;
    if (this.#bytes.length < end + 2) return undefined;
    const text = this.#bytes.toString('utf8', this.#at, end);
    this.#at = end + 2;
    return text;
  }

  #array(length: number, depth: number): readonly Reply[] | null | undefined {
    if (length < 0) return null;
    if (depth === MAX_DEPTH) throw new ProtocolError('arrays nested too deeply');
    const values: Reply[] = [];
    for (let index = 0; index < length; index += 1) {
      const value = this.#value(depth + 1);
      if (value === undefined) return undefined;
      values.push(value);
    }
    return values;
  }
}

function integer(text: string): number {
  const value = Number(text);
  if (text === '' || !Number.isInteger(value)) throw new ProtocolError(`${JSON.stringify(text)} for a number`);
  return value;
}
