/** The result of a call, as `rate-limiter-flexible` has it. */
export interface Res {
  remainingPoints: number;
  /** -1: the points never come back by themselves. */
  msBeforeNext: number;
  consumedPoints: number;
  isFirstInDuration: boolean;
}

export type ResConstructor<R extends Res = Res> = new (
  remainingPoints?: number,
  msBeforeNext?: number,
  consumedPoints?: number,
  isFirstInDuration?: boolean,
) => R;

/** TypeScript extends a class that it does not know only if its constructor takes `any`. */
export type AnyConstructor = new (...parameters: any[]) => object;

/** What the adapter takes from the caller's `rate-limiter-flexible`, so that `instanceof` holds there. */
export interface FlexiblePackage<R extends Res = Res> {
  readonly RateLimiterRes: ResConstructor<R>;
  readonly RateLimiterCompatibleAbstract: unknown;
}

/** Any limiter of the package, for when the server cannot be asked. */
export interface InsuranceLimiter {
  blockDuration: number;
  execEvenly: boolean;
  consume(key: string | number, points?: number): Promise<Res>;
  penalty(key: string | number, points?: number): Promise<Res>;
  reward(key: string | number, points?: number): Promise<Res>;
  get(key: string | number): Promise<Res | null>;
  set(key: string | number, points: number, secDuration: number): Promise<Res>;
  block(key: string | number, secDuration: number): Promise<Res>;
  delete(key: string | number): Promise<boolean>;
}
