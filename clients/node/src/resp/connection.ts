import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import { noAnswer, type WaterclockError } from '../error.js';
import type { Address } from './address.js';
import { ErrorReply, Parser, ProtocolError, type Reply } from './parse.js';
import { readError } from './replies.js';

/** One command on its way. */
export interface Pending {
  resolve(reply: Reply): void;
  reject(error: WaterclockError): void;
}

// The server closes connections that were idle for 60 s; a command must not meet that.
const IDLE_MS = 50_000;
// A server that owes replies and sends nothing for this long will not send them any more.
const SILENCE_MS = 5_000;
// While a server is down, every call would open a connection of its own.
const RECONNECT_MS = 100;

/**
 * One connection, authenticated. Commands are sent as they come and replies arrive in the same order, so a command whose
 * caller has given up still has its place in line.
 */
export class Connection {
  readonly #address: Address;
  readonly #socket: Socket;
  readonly #parser = new Parser();
  /** Commands that are written in the next batch: a caller that gives up first takes its command back. */
  readonly #unsent = new Map<Pending, string>();
  /** Commands that were sent, in the order of their replies. */
  readonly #sent: Pending[] = [];
  #sentHead = 0;
  #ready = false;
  #hasServed = false;
  #flushing = false;
  #failure: WaterclockError | undefined;
  readonly #now: () => number;
  readonly #opened: number;
  /** When the server last sent anything, or was first asked again after it had answered everything. */
  #active: number;

  constructor(address: Address, tls: ConnectionOptions | undefined, now: () => number) {
    this.#address = address;
    this.#now = now;
    this.#opened = this.#active = now();
    const { host, port } = address;
    this.#socket = address.tls ? connectTls({ host, port, ...servername(host), ...tls }) : connectTcp({ host, port });
    this.#socket.setNoDelay(true);
    this.#socket.once(address.tls ? 'secureConnect' : 'connect', () => this.#authenticate());
    this.#socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    this.#socket.on('error', (cause) => this.#lose(cause));
    this.#socket.once('close', () => this.#lose(new Error('it closed the connection')));
  }

  /** Whether another command may be sent. */
  get usable(): boolean {
    if (this.#failure !== undefined) return false;
    const quietMs = this.#now() - this.#active;
    return this.#ready && this.outstanding === 0 ? quietMs < IDLE_MS : quietMs < SILENCE_MS;
  }

  /** Whether it failed before it served any command, and so recently that another one would fail as well. */
  get hasJustFailed(): boolean {
    return this.#failure !== undefined && !this.#hasServed && this.#now() - this.#opened < RECONNECT_MS;
  }

  /** Commands that have no reply yet, including those whose callers have given up. */
  get outstanding(): number {
    return this.#unsent.size + this.#sent.length - this.#sentHead;
  }

  /** Sends a command with others of the same turn of the event loop. */
  send(command: readonly string[], pending: Pending): void {
    if (this.#failure !== undefined) {
      pending.reject(this.#failure);
      return;
    }
    if (this.outstanding === 0) {
      if (this.#ready) this.#active = this.#now();
      this.#socket.ref();
    }
    this.#unsent.set(pending, encode(command));
    this.#scheduleFlush();
  }

  /** Takes a command back if it was not sent yet; otherwise its reply will come and be dropped. */
  withdraw(pending: Pending): void {
    this.#unsent.delete(pending);
    this.#unrefIfIdle();
  }

  /** Ends the connection. Every command that has no reply fails. */
  fail(error: WaterclockError): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.#socket.destroy();
    const failed = [...this.#sent.slice(this.#sentHead), ...this.#unsent.keys()];
    this.#sent.length = 0;
    this.#sentHead = 0;
    this.#unsent.clear();
    for (const pending of failed) pending.reject(error);
  }

  #lose(cause: unknown): void {
    this.fail(noAnswer(this.#address.shown, cause));
  }

  #authenticate(): void {
    const { token } = this.#address;
    if (token === undefined) {
      this.#open();
      return;
    }
    this.#sent.push({
      resolve: (reply) => (reply instanceof ErrorReply ? this.fail(readError(reply, this.#address.shown)) : this.#open()),
      reject: () => {},
    });
    this.#socket.write(encode(['AUTH', token]));
  }

  #open(): void {
    this.#ready = true;
    this.#active = this.#now();
    this.#scheduleFlush();
  }

  #scheduleFlush(): void {
    if (!this.#ready || this.#flushing || this.#unsent.size === 0) return;
    this.#flushing = true;
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#flushing = false;
    if (this.#failure !== undefined || this.#unsent.size === 0) return;
    this.#socket.write([...this.#unsent.values()].join(''));
    for (const pending of this.#unsent.keys()) this.#sent.push(pending);
    this.#unsent.clear();
  }

  #receive(chunk: Buffer): void {
    this.#active = this.#now();
    this.#hasServed = this.#ready;
    try {
      for (const reply of this.#parser.push(chunk)) {
        const pending = this.#sent[this.#sentHead];
        if (pending === undefined) throw new ProtocolError('a reply that no command asked for');
        this.#sentHead += 1;
        pending.resolve(reply);
      }
    } catch (cause) {
      this.#lose(cause);
      return;
    }
    this.#dropReplied();
    this.#unrefIfIdle();
  }

  /** An idle connection does not keep the process alive. */
  #unrefIfIdle(): void {
    if (this.outstanding === 0) this.#socket.unref();
  }

  #dropReplied(): void {
    if (this.#sentHead < 1024 && this.#sentHead < this.#sent.length) return;
    this.#sent.splice(0, this.#sentHead);
    this.#sentHead = 0;
  }
}

function encode(command: readonly string[]): string {
  return `*${command.length}\r\n${command.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join('')}`;
}

function servername(host: string): { servername?: string } {
  // A name in the handshake must not be an address.
  return /^[\d.]+$|:/.test(host) ? {} : { servername: host };
}
