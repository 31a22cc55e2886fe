import type { ConnectionOptions } from 'node:tls';
import { after, clientClosed, deadlinePassed, startDeadline } from '../deadline.js';
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
  readonly #idle: Connection[] = [];
  readonly #waits: Gate;
  #next = 0;
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#shared = new Array<Connection | undefined>(options.connections).fill(undefined);
    this.#waits = new Gate(options.waits, options.maxOutstanding);
  }

  /** Sends a command on a shared connection. If it is given up after it was sent, the connection goes on. */
  async command(command: readonly string[], deadlineMs: number): Promise<Reply> {
    if (this.#closed) throw clientClosed();
    return this.#ask(this.#pick(), command, deadlineMs, deadlineMs);
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
        const reply = await this.#ask(connection, command(), leftMs, deadlineMs);
        this.#idle.push(connection);
        return reply;
      } catch (error) {
        // So the server drops the caller from its line.
        connection.fail(error as WaterclockError);
        throw error;
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

  /**
   * The next shared connection in turn; one that is closed, idle for too long or silent is replaced. One that could
   * not be opened is given as it is for a moment, and fails its calls at once.
   */
  #pick(): Connection {
    const index = this.#next;
    this.#next = (index + 1) % this.#shared.length;
    const connection = this.#shared[index];
    const isKept = connection !== undefined && (connection.usable || connection.hasJustFailed);
    if (!isKept) connection?.fail(this.#replaced());
    const outstanding = this.#shared.reduce((sum, each) => sum + (each?.outstanding ?? 0), 0);
    if (outstanding >= this.#options.maxOutstanding) throw tooManyCalls(this.#options.maxOutstanding);
    return isKept ? connection : (this.#shared[index] = this.#connect());
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
  ): Promise<Reply> {
    return new Promise<Reply>((resolve, reject) => {
      const cancel = after(leftMs, () => {
        connection.withdraw(pending);
        reject(deadlinePassed(deadlineMs, this.#options.address.shown));
      });
      const pending: Pending = {
        resolve: (reply) => {
          cancel();
          resolve(reply);
        },
        reject: (error) => {
          cancel();
          reject(error);
        },
      };
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
