/** A limit together with the resource that it limits: an endpoint's name, or a group and what is in it. */
export type Keyed<T> = T & { readonly key: string };

export type RateLimit = BucketRateLimit | LegacyRateLimit;

/** A bucket of `size` calls from which `dripSize` calls leak every `dripRate` milliseconds. */
export interface BucketRateLimit {
  readonly key?: string;
  readonly type: 'bucket';
  readonly size: number;
  /** Milliseconds (1,000). */
  readonly dripRate?: number | undefined;
  /** Calls (1). */
  readonly dripSize?: number | undefined;
}

/** At most `max` calls in `duration` milliseconds, at least `minInterval` milliseconds apart. */
export interface LegacyRateLimit {
  readonly key?: string;
  readonly type?: undefined;
  readonly duration?: number | undefined;
  readonly max?: number | undefined;
  readonly minInterval?: number | undefined;
}

export function isLegacyRateLimit(limit: RateLimit): limit is LegacyRateLimit {
  return limit.type === undefined;
}

export function hasMaxLimit(limit: LegacyRateLimit): limit is LegacyRateLimit & { max: number; duration: number } {
  return limit.max != null && limit.duration != null;
}

export function hasMinLimit(limit: LegacyRateLimit): limit is LegacyRateLimit & { minInterval: number } {
  return limit.minInterval != null;
}
