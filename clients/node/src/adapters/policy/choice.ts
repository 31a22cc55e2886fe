/** A policy of the server: one for everything, or one for each key of the caller's limits. */
export type PolicyChoice = string | Readonly<Record<string, string>>;

/** The policy that the operator has for a key; `undefined`: none, so numbers are registered. */
export function chosenPolicy(choice: PolicyChoice | undefined, key: string): string | undefined {
  if (typeof choice === 'string' || choice === undefined) return choice;
  return Object.hasOwn(choice, key) ? choice[key] : undefined;
}
