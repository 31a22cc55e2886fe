import type { ConnectionOptions } from 'node:tls';
import { clientClosed, deadlinePassed, startDeadline } from '../deadline.js';
import { WaterclockError } from '../error.js';
import { Gate, tooManyCalls } from '../gate.js';
import type { Address } from './address.js';
import { Connection, type Pending } from './connection.js';
import type { Reply } from './parse.js';

export interface PoolOptions {
  readonly address: Address;
  readonly tls: ConnectionOptions | undefined;
  readonly connections: number;
  readonly waits: number;
  readonly maxOutstanding: number;
  /** A clock in milliseconds. */
  readonly now: () => number;
}

/** The connections of one client: a few that all commands share, and one for each command that waits. */
export class Pool {
  readonly #options: PoolOptions;
  readonly #shared: (Connection | undefined)[];
  readonly #waiting = new Set<Connection>();
  #idle: Connection[] = [];
  readonly #waits: Gate;
  #next = 0;
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#shared = new Array<Connection | undefined>(options.connections).fill(undefined);
    this.#waits = new Gate(options.waits, Math.max(options.maxOutstanding - options.waits, 0));
  }

  /** Sends a command on a shared connection. If it is given up after it was sent, the connection goes on. */
  async command(command: readonly string[], deadlineMs: number): Promise<Reply> {
    if (this.#closed) throw clientClosed();
    const connection = this.#pick();
    return await this.#ask(connection, command, deadlineMs, deadlineMs, () => {});
  }

  /** Sends a command that may take long on a connection of its own. `command` is formed when there is one. */
  async wait(command: () => readonly string[], deadlineMs: number): Promise<Reply> {
    if (this.#closed) throw clientClosed();
    const started = this.#options.now();
    await this.#enterWaits(deadlineMs);
    try {
      if (this.#closed) throw clientClosed();
      const connection = this.#takeIdle();
      this.#waiting.add(connection);
      try {
        const leftMs = Math.max(deadlineMs - (this.#options.now() - started), 0);
        // Closing the connection makes the server drop the caller from its line.
        const reply = await this.#ask(connection, command(), leftMs, deadlineMs, (error) => connection.fail(error));
        this.#idle.push(connection);
        return reply;
      } finally {
        this.#waiting.delete(connection);
      }
    } finally {
      this.#waits.leave();
    }
  }

  close(): void {
    this.#closed = true;
    for (const connection of [...this.#shared, ...this.#waiting, ...this.#idle]) connection?.fail(clientClosed());
  }

  async #enterWaits(deadlineMs: number): Promise<void> {
    const deadline = startDeadline(deadlineMs, this.#options.address.shown);
    try {
      await this.#waits.enter(deadline.signal);
    } finally {
      deadline.cancel();
    }
  }

  /** The next shared connection in turn; one that is closed, idle for too long or silent is replaced. */
  #pick(): Connection {
    const outstanding = this.#shared.reduce((sum, connection) => sum + (connection?.outstanding ?? 0), 0);
    if (outstanding >= this.#options.maxOutstanding) throw tooManyCalls(this.#options.maxOutstanding);
    const index = this.#next;
    this.#next = (index + 1) % this.#shared.length;
    const current = this.#shared[index];
    if (current?.usable) return current;
    current?.fail(this.#replaced());
    return (this.#shared[index] = this.#connect());
  }

  #takeIdle(): Connection {
    for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
      if (connection.usable) return connection;
      connection.fail(this.#replaced());
    }
    return this.#connect();
  }

  #connect(): Connection {
    return new Connection(this.#options.address, this.#options.tls, this.#options.now);
  }

  /** Sends and awaits the reply. `deadlineMs` is what the caller asked for, `leftMs` what is left of it. */
  #ask(
    connection: Connection,
    command: readonly string[],
    leftMs: number,
    deadlineMs: number,
    giveUp: (error: WaterclockError) => void,
  ): Promise<Reply> {
    return new Promise<Reply>((resolve, reject) => {
      const deadline = startDeadline(leftMs, this.#options.address.shown);
      const pending: Pending = {
        resolve: (reply) => {
          deadline.cancel();
          resolve(reply);
        },
        reject: (error) => {
          deadline.cancel();
          reject(error);
        },
      };
      deadline.signal.addEventListener('abort', () => {
        const error = deadlinePassed(deadlineMs, this.#options.address.shown);
        reject(error);
        if (!connection.withdraw(pending)) giveUp(error);
      });
      connection.send(command, pending);
    });
  }

  #replaced(): WaterclockError {
    return new WaterclockError(
      'unavailable',
      `${this.#options.address.shown} went silent, so its connection was closed; the call may or may not have been counted`,
    );
  }
}
